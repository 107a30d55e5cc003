"""How warm the motors of a fake board get."""

from __future__ import annotations

import numpy as np

from unitree_lowlevel.low_state import Array

AMBIENT = 30.0  # [deg C]
# A simple model, measured on no motor: holding half of the largest torque ends HEATING above ambient, approached with
# this time constant [s].
HEATING = 30.0  # [deg C]
TIME_CONSTANT = 300.0


class MotorHeat:
    """Temperatures of the motors whose largest torques are `torque_limit` (n,) [Nm]."""

    def __init__(self, torque_limit: Array) -> None:
        self._gain = HEATING / (0.5 * torque_limit) ** 2
        self._rise = np.zeros_like(torque_limit)

    @property
    def temperature(self) -> Array:
        """Temperatures (n,) [deg C]."""
        return AMBIENT + self._rise

    def advance(self, torque: Array, duration: float) -> None:
        """Let `torque` (n,) [Nm] act for `duration` [s]."""
        self._rise += (self._gain * torque**2 - self._rise) * (duration / TIME_CONSTANT)
