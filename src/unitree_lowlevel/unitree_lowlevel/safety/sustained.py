"""Impacts pass, faults stay: a condition counts only after it has been there for a while."""

from __future__ import annotations


class Sustained:
    """Adds up the time with a reason and takes away the time without, so that shaking above and below a threshold
    counts too. A reason passes after more than `duration` [s].
    """

    def __init__(self, duration: float, period: float) -> None:
        self._duration = duration
        self._period = period
        self._time = 0.0

    def reset(self) -> None:
        """Forget the past."""
        self._time = 0.0

    def check(self, reason: str | None) -> str | None:
        """The reason found in one more period, once there has been one for long enough."""
        if reason is None:
            self._time = max(self._time - self._period, 0.0)
            return None
        self._time += self._period
        return reason if self._time > self._duration else None
