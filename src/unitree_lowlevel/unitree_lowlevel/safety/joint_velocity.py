"""Whether joints turn faster than their motors can."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.safety.limits import Limits

NAME = "joint_velocity"


def check_velocity(limits: Limits, velocity: npt.NDArray[np.float64]) -> str | None:
    """A reason when a joint's velocity (12,) [rad/s] is beyond the accepted share of its limit."""
    share = np.abs(velocity) / limits.velocity
    worst = int(share.argmax())
    if share[worst] <= limits.safety.max_velocity:
        return None
    return (
        f"{JOINT_NAMES[worst]} turns at {velocity[worst]:.1f} rad/s, accepted are "
        f"{limits.safety.max_velocity * limits.velocity[worst]:.1f}; look for shaking joints (gains, policy)"
    )
