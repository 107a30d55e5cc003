"""When the computer itself stands still: what processes see that have the highest priority and do nothing else.

A virtual machine is held up by its host, and no program in it can be on time then. One process for each processor
sleeps for 2 ms again and again, with locked memory and SCHED_FIFO above everything that is measured.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import time
from multiprocessing.connection import Connection

from fcnet_core.control_clock import request_privileges

PERIOD = 0.002  # [s]
PRIORITY = 90
PAUSE = 0.002  # [s] later than intended


class PauseWatch:
    """From its making until `close`; `pauses`: (end [s, time.monotonic], duration [s]) on any processor, so far.
    permitted: whether the system grants the priority, without which a pause may be another program's.
    """

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._seen: list[tuple[float, float]] = []
        self._connections: list[Connection] = []
        self._processes = []
        for processor in sorted(os.sched_getaffinity(0)):
            here, there = context.Pipe()
            process = context.Process(target=_watch, args=(there, processor), daemon=True)
            process.start()
            there.close()
            self._connections.append(here)
            self._processes.append(process)
        permissions = [connection.recv() for connection in self._connections]
        self.permitted = all(permissions)

    @property
    def pauses(self) -> list[tuple[float, float]]:
        """All pauses up to now."""
        for connection in self._connections:
            while connection.poll():
                self._seen.append(connection.recv())
        return sorted(self._seen)

    def lost(self, since: float, until: float, period: float) -> int:
        """How many deadlines that are `period` [s] apart fell into pauses that ended in this time [s]."""
        return sum(math.ceil(pause / period) for end, pause in self.pauses if since <= end <= until)

    def longest(self, since: float, until: float) -> float:
        """The longest pause that ended in this time [s]."""
        return max((pause for end, pause in self.pauses if since <= end <= until), default=0.0)

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
