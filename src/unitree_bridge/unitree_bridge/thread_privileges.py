"""What a thread that must not be late may ask of Linux; where it is not permitted, a sentence says so."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

MCL_CURRENT = 1  # of mlockall; with MCL_FUTURE a limit reached later would end the process


def claim(realtime_priority: int, lock_memory: bool, cpu: int) -> Iterator[str]:
    """Ask for the calling thread: SCHED_FIFO at a priority (0: do not), memory that stays in place, one processor (-1:
    any). Yields a sentence for each wish that was not granted.
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
