"""Whether the joints are where they were told to be."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.safety.limits import Limits

NAME = "joint_error"
Array = npt.NDArray[np.float64]


def check_joint_error(limits: Limits, target: Array, position: Array) -> str | None:
    """A reason when a measured position is too far from its target, both (12,) [rad]."""
    error = np.abs(target - position)
    worst = int(error.argmax())
    if error[worst] <= limits.safety.max_joint_error:
        return None
    return (
        f"{JOINT_NAMES[worst]} is {error[worst]:.2f} rad from its target, the limit is "
        f"{limits.safety.max_joint_error:g} rad; look for a blocked leg or a motor without power"
    )
