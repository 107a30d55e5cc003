"""When the computer itself stands still: what processes see that have the highest priority and do nothing else.

Where they are late, whatever the cause, no program of a lower priority can be on time. One process for each processor
sleeps for 2 ms again and again, with locked memory and SCHED_FIFO above everything that is measured.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import time
from multiprocessing.connection import Connection

from fcnet_core.control.timing import request_privileges

PERIOD = 0.002  # [s]
PRIORITY = 90
PAUSE = 0.002  # [s] later than intended


class PauseWatch:
    """From its making until `close`; `pauses`: (end [s, time.monotonic], duration [s]) by processor, so far.
    permitted: whether the system grants the priority, without which a pause may be another program's.
    """

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._seen: dict[int, list[tuple[float, float]]] = {}
        self._connections: dict[int, Connection] = {}
        self._processes = []
        for processor in sorted(os.sched_getaffinity(0)):
            here, there = context.Pipe()
            process = context.Process(target=_watch, args=(there, processor), daemon=True)
            process.start()
            there.close()
            self._connections[processor], self._seen[processor] = here, []
            self._processes.append(process)
        permissions = [connection.recv() for connection in self._connections.values()]
        self.permitted = all(permissions)

    @property
    def pauses(self) -> dict[int, list[tuple[float, float]]]:
        """All pauses up to now."""
        for processor, connection in self._connections.items():
            while connection.poll():
                self._seen[processor].append(connection.recv())
        return self._seen

    def lost(self, since: float, until: float, period: float) -> int:
        """How many deadlines that are `period` [s] apart one processor lost to pauses that ended in this time [s], the
        one that lost most: a program runs on one at a time.
        """
        return max(
            sum(math.ceil(pause / period) for end, pause in seen if since <= end <= until)
            for seen in self.pauses.values()
        )

    def durations(self, since: float, until: float = math.inf) -> list[float]:
        """Of the pauses that ended in this time, on any processor [s]."""
        return [pause for seen in self.pauses.values() for end, pause in seen if since <= end <= until]

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
            process.join()


def _watch(connection: Connection, processor: int) -> None:
    refused = list(request_privileges(PRIORITY, lock_memory=True, cpu=processor))
    gc.disable()
    connection.send(not refused)
    last = time.monotonic()
    while True:
        time.sleep(PERIOD)
        now = time.monotonic()
        late, last = now - last - PERIOD, now
        if late > PAUSE:
            connection.send((now, late))
