"""What the controller watches while joints follow targets; each watchdog returns a reason in words, or None."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES, Safety

Array = npt.NDArray[np.float64]


class TiltWatchdog:
    """Watches the angle between the trunk and the vertical."""

    def __init__(self, safety: Safety) -> None:
        self._limit = safety.max_tilt

    def check(self, orientation: Array) -> str | None:
        """Reason to give up for an orientation (4,) x, y, z, w."""
        x, y, _, _ = orientation.tolist()
        tilt = math.acos(max(-1.0, 1.0 - 2.0 * (x * x + y * y)))  # the body's z axis against the vertical
        if tilt <= self._limit:
            return None
        return f"the robot is tilted by {tilt:.2f} rad, the limit is {self._limit:g} rad; set it on its belly"


class JointErrorWatchdog:
    """Watches the distance between targets and measured positions, which grows when a leg is blocked or powerless.

    It counts only after the robot's joint_error_time: impacts pass, blocked legs stay.
    """

    def __init__(self, safety: Safety, period: float) -> None:
        self._limit = safety.max_joint_error
        self._patience = safety.joint_error_time
        self._period = period
        self._exceeded = 0.0

    def reset(self) -> None:
        """Forget how long a joint has been away."""
        self._exceeded = 0.0

    def check(self, target: Array, measured: Array) -> str | None:
        """Reason to give up for targets and positions (12,) [rad] that have been so for one more period."""
        error = np.abs(target - measured)
        worst = int(error.argmax())
        self._exceeded = self._exceeded + self._period if error[worst] > self._limit else 0.0
        if self._exceeded <= self._patience:
            return None
        return (
            f"{JOINT_NAMES[worst]} is {error[worst]:.2f} rad from its target, the limit is {self._limit:g} rad; "
            "look for a blocked leg or a motor without power"
        )
