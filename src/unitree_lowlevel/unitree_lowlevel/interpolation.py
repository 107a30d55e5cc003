"""Steps between targets that come at 50 to 200 Hz become ramps for motors that are commanded at 500 Hz."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class TargetRamp:
    """Moves evenly from one target to the next.

    A ramp takes as long as the last two targets were apart, at most `longest` [s]: longer would be smoother and later.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._from: Array = np.zeros(12)
        self._to: Array = np.zeros(12)
        self._began = 0.0
        self._duration = 0.0

    def start(self, position: Array, now: float) -> None:
        """Begin at joint positions (12,) [rad] at time `now` [s]."""
        self._from = self._to = position
        self._began, self._duration = now - self._longest, 0.0

    def aim(self, target: Array, now: float) -> None:
        """Go to a new target (12,) [rad] from wherever the ramp is at time `now` [s]."""
        apart = now - self._began
        self._from, self._to = self.position(now), target
        self._began, self._duration = now, min(apart, self._longest)

    def position(self, now: float) -> Array:
        """Where the ramp is (12,) [rad] at time `now` [s]."""
        elapsed = now - self._began
        if elapsed >= self._duration:
            return self._to
        return self._from + max(elapsed, 0.0) / self._duration * (self._to - self._from)
