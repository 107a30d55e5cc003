"""Whether the trunk is upright."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unitree_lowlevel.safety.limits import Limits

NAME = "tilt"


def check_tilt(limits: Limits, orientation: npt.NDArray[np.float64]) -> str | None:
    """A reason when the trunk's z axis, from the orientation (4,) x, y, z, w, is too far from the vertical."""
    x, y, _, _ = orientation.tolist()
    tilt = math.acos(min(1.0, max(-1.0, 1.0 - 2.0 * (x * x + y * y))))
    if tilt <= limits.safety.max_tilt:
        return None
    return f"the robot is tilted by {tilt:.2f} rad, the limit is {limits.safety.max_tilt:g} rad; set it on its belly"
