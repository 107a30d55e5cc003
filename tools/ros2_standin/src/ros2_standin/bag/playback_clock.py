"""The time inside a bag that is being played."""

from __future__ import annotations

import math
import time


class PlaybackClock:
    """Runs at `rate` times real time from `start` [ns], unless paused."""

    def __init__(self, start: int, rate: float, paused: bool) -> None:
        self.paused = paused
        self._rate = rate
        self._stamp, self._moment = start, time.monotonic()

    @property
    def rate(self) -> float:
        """How much faster than real time it runs."""
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self.jump(self.now())
        self._rate = rate

    def now(self) -> int:
        """Return the bag's time [ns]."""
        if self.paused:
            return self._stamp
        return self._stamp + int((time.monotonic() - self._moment) * self._rate * 1e9)

    def wait_time(self, stamp: int) -> float:
        """Return how long it takes until `stamp`, in seconds of real time."""
        if self.paused:
            return math.inf
        return (stamp - self._stamp) * 1e-9 / self._rate - (time.monotonic() - self._moment)

    def toggle(self) -> None:
        """Pause or go on."""
        self.jump(self.now())
        self.paused = not self.paused

    def jump(self, stamp: int) -> None:
        """Go on from `stamp`."""
        self._stamp, self._moment = stamp, time.monotonic()
