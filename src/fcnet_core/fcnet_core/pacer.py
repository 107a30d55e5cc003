"""Keeps simulated time, a simulation's or a fake board's, in step with the wall clock."""

from __future__ import annotations

import time
from collections.abc import Callable

# [s] A pacer that is later than this does not catch up: a burst of simulated time would leave whoever controls the
# robot no time to answer.
LATEST = 0.02


class Pacer:
    """Sleeps until absolute deadlines `period` seconds apart; time lost beyond LATEST is not made up for."""

    def __init__(
        self,
        period: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._period = period
        self._clock = clock
        self._sleep = sleep
        self._deadline = clock()
        self._measured_from = self._deadline
        self._turns = 0
        self.lost = 0.0  # [s] that were not made up for

    def wait(self) -> None:
        """Return at the next deadline, or at once where it has passed."""
        self._deadline += self._period
        self._turns += 1
        now = self._clock()
        if now < self._deadline:
            self._sleep(self._deadline - now)
        elif now > self._deadline + LATEST:
            self.lost += now - self._deadline
            self._deadline = now

    def measured_rate(self) -> float:
        """Turns per second since this was last asked."""
        now = self._clock()
        rate = self._turns / (now - self._measured_from) if now > self._measured_from else 0.0
        self._measured_from, self._turns = now, 0
        return rate
