"""Whether a motor is too hot."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.safety.limits import Limits
from unitree_lowlevel.safety.trip import Finding, Severity

NAME = "temperature"


def check_temperature(limits: Limits, temperature: npt.NDArray[np.float64]) -> Finding | None:
    """A warning, then a trip, for motor temperatures (12,) [deg C]."""
    worst = int(temperature.argmax())
    hottest = float(temperature[worst])
    if hottest < limits.safety.temperature_warning:
        return None
    motor = f"the motor of {JOINT_NAMES[worst]} has {hottest:.0f} C"
    if hottest < limits.safety.max_temperature:
        return Finding(NAME, f"{motor}, the limit is {limits.safety.max_temperature:g} C; rest soon", Severity.WARNING)
    return Finding(NAME, f"{motor}, the limit is {limits.safety.max_temperature:g} C; let it cool", Severity.ALWAYS)
