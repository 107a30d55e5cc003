"""Clocks of loops: pacing of simulated time, quantiles of latencies, and real-time privileges of threads."""

import ctypes
import os
import time
from collections.abc import Callable, Iterator

import numpy as np

from fcnet_core.arrays import Array

# [s] A pacer does not catch up on a longer delay: in a burst of simulated time, the controller could not keep up.
LATEST = 0.02
# Flags of mlockall: lock the present mappings, each page at its first use. With MCL_FUTURE, reaching a limit later
# would kill the process; without MCL_ONFAULT, the whole stack of every thread would be locked.
MCL_CURRENT, MCL_ONFAULT = 1, 4
TIME_OF_DAY = 1e9  # [s] stamps from here on are wall-clock time (since 2001), not simulated time
NEVER = float("-inf")  # [s] the time of an event that has not happened


class Pacer:
    """Keeps simulated time in step with the wall clock: sleeps until absolute deadlines `period` seconds apart.

    It does not catch up on delays beyond LATEST.
    """

    def __init__(
        self, period: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._period, self._clock, self._sleep = period, clock, sleep
        self._deadline = self._measured_from = clock()
        self._cycles = 0
        self.lost = 0.0  # [s] sum of delays without catching up

    def wait(self) -> None:
        """Return at the next deadline, or immediately if it has passed."""
        self._deadline += self._period
        self._cycles += 1
        now = self._clock()
        if now < self._deadline:
            self._sleep(self._deadline - now)
        elif now > self._deadline + LATEST:
            self.lost += now - self._deadline
            self._deadline = now

    def measured_rate(self) -> float:
        """Return the cycles per second since the last call."""
        now = self._clock()
        rate = self._cycles / (now - self._measured_from) if now > self._measured_from else 0.0
        self._measured_from, self._cycles = now, 0
        return rate


WINDOW = 4096  # samples kept: 82 s at 50 Hz, 8 s at 500 Hz


class LatencyRing:
    """The newest durations [s], written by one thread and read by another without a lock."""

    def __init__(self, size: int = WINDOW) -> None:
        self._samples: Array = np.zeros(size)
        self._count = 0

    def add(self, duration: float) -> None:
        """Replace the oldest sample by a duration [s]."""
        self._samples[self._count % len(self._samples)] = duration
        self._count += 1

    def quantiles(self) -> dict[str, float]:
        """Return p50, p99 and max [s] of the kept samples; all zero without samples."""
        samples = np.sort(self._samples[: max(1, min(self._count, len(self._samples)))])
        # not np.quantile: its first call holds the GIL for 0.1 s
        places = np.array([0.5, 0.99, 1.0]) * (len(samples) - 1)
        values = np.interp(places, np.arange(len(samples)), samples).tolist()
        return dict(zip(("p50", "p99", "max"), values, strict=True))


def request_privileges(realtime_priority: int, lock_memory: bool, cpu: int = -1) -> Iterator[str]:
    """Request for the calling thread: SCHED_FIFO at a priority (0: none), locked memory, one processor (-1: any).

    Yields a message for each request that the system does not grant.
    """
    if realtime_priority:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(realtime_priority))
        except OSError as error:
            remedy = "continuing without; give this user an rtprio limit (docs/deployment.md)"
            yield f"no SCHED_FIFO priority {realtime_priority} ({error.strerror}): {remedy}"
    if lock_memory and ctypes.CDLL(None, use_errno=True).mlockall(MCL_CURRENT | MCL_ONFAULT):
        remedy = "continuing without; give this user a memlock limit (docs/deployment.md)"
        yield f"memory is not locked ({os.strerror(ctypes.get_errno())}): {remedy}"
    if cpu >= 0:
        try:
            os.sched_setaffinity(0, {cpu})
        except OSError as error:
            yield f"the loop is not pinned to processor {cpu} ({error.strerror}): continuing without; choose another"
