"""Whether a motor gives all it has for too long: short peaks are walking, long ones heat it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.safety.limits import Limits

NAME = "joint_torque"


def check_torque(limits: Limits, torque: npt.NDArray[np.float64]) -> str | None:
    """A reason when an estimated torque (12,) [Nm] is beyond the accepted share of its limit."""
    share = np.abs(torque) / limits.torque
    worst = int(share.argmax())
    if share[worst] <= limits.safety.max_torque:
        return None
    return (
        f"{JOINT_NAMES[worst]} gives {torque[worst]:.1f} Nm of its {limits.torque[worst]:g} Nm without a pause; "
        "free the leg or lighten the robot"
    )
