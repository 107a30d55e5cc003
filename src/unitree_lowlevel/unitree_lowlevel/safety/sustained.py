"""Impacts pass, faults stay: a condition counts only after it has been there for a while."""

from __future__ import annotations


class Sustained:
    """Adds up the time with a reason and takes away the time without, so that shaking above and below a threshold
    counts too. A reason passes after more than `duration` [s].
    """

    def __init__(self, duration: float, period: float) -> None:
        self._longest = round(duration / period)
        self._count = 0

    def reset(self) -> None:
        """Forget the past."""
        self._count = 0

    def check(self, reason: str | None) -> str | None:
        """The reason found in one more period, once there has been one for long enough."""
        if reason is None:
            self._count = max(self._count - 1, 0)
            return None
        self._count += 1
        return reason if self._count > self._longest else None
