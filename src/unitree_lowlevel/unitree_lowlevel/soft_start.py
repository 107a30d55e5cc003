"""Stiffness comes gently: a joint that begins to follow is first only damped."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class SoftStart:
    """Ramps the gains from no stiffness and the robot's holding `damping` [Nms/rad] within `duration` [s]."""

    def __init__(self, duration: float, damping: float) -> None:
        self._duration = duration
        self._damping = damping
        self._began = 0.0

    def begin(self, now: float) -> None:
        """Start at time `now` [s]."""
        self._began = now

    def gains(self, kp: Array, kd: Array, now: float) -> tuple[Array, Array]:
        """Stiffness [Nm/rad] and damping [Nms/rad], each (12,), at time `now` [s] on the way to kp and kd (12,)."""
        share = (now - self._began) / self._duration
        if share >= 1.0:
            return kp, kd
        share = max(share, 0.0)
        return share * kp, self._damping + share * (kd - self._damping)
