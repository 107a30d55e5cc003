"""Whether the motors together turn more power than walking ever needs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unitree_lowlevel.safety.limits import Limits

NAME = "motor_power"


def check_power(limits: Limits, torque: npt.NDArray[np.float64], velocity: npt.NDArray[np.float64]) -> str | None:
    """A reason when the sum of |torque x velocity| of torques [Nm] and velocities [rad/s] (12,) is beyond the limit.

    The sum is that of the vendor's PowerProtect, which ends the process instead.
    """
    power = float(np.abs(torque * velocity).sum())
    if power <= limits.safety.max_power:
        return None
    return f"the motors turn {power:.0f} W, accepted are {limits.safety.max_power:g} W; look for shaking joints"
