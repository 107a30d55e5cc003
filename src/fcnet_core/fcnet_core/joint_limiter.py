"""The last word on every target that leaves the controller: inside the joint limits, never faster than allowed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import Robot

Array = npt.NDArray[np.float64]


class JointLimiter:
    """Clips position targets to the robot's limits and limits their change per second; never lets a NaN through."""

    def __init__(self, robot: Robot, period: float) -> None:
        self._lower = robot.lower
        self._upper = robot.upper
        self._step = robot.safety.max_target_rate * period
        self.last: Array = np.clip(robot.lie_pose, self._lower, self._upper)

    def start(self, position: npt.ArrayLike) -> None:
        """Begin at measured joint positions (12,) [rad], clipped to the limits."""
        self.last = np.clip(np.asarray(position, dtype=np.float64), self._lower, self._upper)

    def limit(self, target: npt.ArrayLike) -> Array:
        """The targets (12,) [rad] to send this period for wanted targets (12,); where these are NaN, the last ones."""
        wanted = np.asarray(target, dtype=np.float64)
        wanted = np.where(np.isnan(wanted), self.last, wanted)
        slewed = np.minimum(np.maximum(wanted, self.last - self._step), self.last + self._step)
        self.last = np.minimum(np.maximum(slewed, self._lower), self._upper)
        return self.last
