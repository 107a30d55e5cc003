"""Motions that begin and end at rest, without a jump of acceleration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from fcnet_core.arrays import Array


class PoseRamp:
    """Minimum-jerk motion through poses (12,) [rad], resting at each; `durations` [s] has one entry per stretch."""

    def __init__(self, poses: Sequence[Array], durations: Sequence[float]) -> None:
        self._stretches = list(zip(pairwise(poses), durations, strict=True))
        self._last = poses[-1]
        self.duration = float(sum(durations))

    def target(self, elapsed: float) -> Array:
        """The pose (12,) [rad] `elapsed` seconds after the start; the last pose once the ramp is done."""
        for (start, end), duration in self._stretches:
            if elapsed < duration:
                return start + minimum_jerk(elapsed / duration) * (end - start)
            elapsed -= duration
        return self._last


def minimum_jerk(fraction: float) -> float:
    """0 to 1 with zero velocity and acceleration at both ends."""
    return fraction**3 * (10 - 15 * fraction + 6 * fraction**2)
