"""Whether the joints are inside their limits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.safety.limits import Limits

NAME = "joint_position"


def check_position(limits: Limits, position: npt.NDArray[np.float64]) -> str | None:
    """A reason when a measured position (12,) [rad] lies outside its side's limits by more than the margin."""
    excess = np.maximum(limits.lower - position, position - limits.upper)
    worst = int(excess.argmax())
    if excess[worst] <= limits.safety.position_margin:
        return None
    return (
        f"{JOINT_NAMES[worst]} is at {position[worst]:.2f} rad, its limits are {limits.lower[worst]:g} to "
        f"{limits.upper[worst]:g} rad; move the leg by hand, or is this another robot?"
    )
