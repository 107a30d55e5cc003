"""When the loop to the motor board runs: its place between the arrivals of states, and its thread's privileges."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

SHIFT = 0.1  # of a period
INTERVAL = 0.5  # [s] between two shifts, so that they cost no more than 0.04 % of the rate
MCL_CURRENT = 1  # of mlockall; with MCL_FUTURE a limit reached later would end the process


class StatePhase:
    """Decides when the loop's cycles should be a little later, so that they do not meet the arrivals of states.

    Robot and loop have the same period. Where a state arrives at about the time of a cycle, one cycle finds none and
    the next finds two, of which the first is no longer of use.
    """

    def __init__(self, period: float) -> None:
        self._shift = SHIFT * period
        self._received = 0
        self._missed = False
        self._shifted = float("-inf")

    def shift(self, received: int, now: float) -> float:
        """Return how much later the next cycles should be [s], after a cycle at time `now` [s] up to which so many
        states have been received in all.
        """
        arrived, self._received = received - self._received, received
        two_after_none = self._missed and arrived >= 2
        self._missed = arrived == 0
        if not two_after_none or now - self._shifted < INTERVAL:
            return 0.0
        self._shifted = now
        return self._shift


def request_privileges(realtime_priority: int, lock_memory: bool, cpu: int) -> Iterator[str]:
    """Request for the calling thread: SCHED_FIFO at a priority (0: none), locked memory, one processor (-1: any).

    Yields a sentence for each request that the system does not grant.
    """
    if realtime_priority:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(realtime_priority))
        except OSError as error:
            yield (
                f"no SCHED_FIFO priority {realtime_priority} ({error.strerror}): going on without; give this user an "
                "rtprio limit (docs/deployment.md)"
            )
    if lock_memory and ctypes.CDLL(None, use_errno=True).mlockall(MCL_CURRENT):
        yield (
            f"memory is not locked ({os.strerror(ctypes.get_errno())}): going on without; give this user a memlock "
            "limit (docs/deployment.md)"
        )
    if cpu >= 0:
        try:
            os.sched_setaffinity(0, {cpu})
        except OSError as error:
            yield f"the loop is not pinned to processor {cpu} ({error.strerror}): going on without; choose another"
