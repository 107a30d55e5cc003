"""The gait clock: a phase that depends on the commands and on time alone.

The controller computes it, the expert follows it, so a policy that imitates the expert can see where in the stride
the expert is. It starts at once, stops only where a stride is half or wholly done, and lingers after the command has
gone to zero, so that a robot in motion comes to rest on its feet.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import SETPOINT_FIELDS, Gait

Array = npt.NDArray[np.float64]
VX, VY, YAW_RATE = (SETPOINT_FIELDS.index(field) for field in ("vx", "vy", "yaw_rate"))
FREQUENCY = SETPOINT_FIELDS.index("frequency")


class GaitClock:
    """Gait phases of `batch` robots, each in [0, 1), advanced by `period` seconds a step."""

    def __init__(self, gait: Gait, period: float, batch: int = 1) -> None:
        self.gait = gait
        self.period = period
        self.phase: Array = np.zeros(batch)
        self.walking = np.zeros(batch, dtype=bool)
        self._linger: Array = np.zeros(batch)

    def reset(self, mask: npt.NDArray[np.bool_] | None = None) -> None:
        """Bring the clocks in `mask` (batch,), or all, to rest at phase 0."""
        chosen = np.ones(len(self.phase), dtype=bool) if mask is None else mask
        self.phase[chosen] = 0.0
        self.walking[chosen] = False
        self._linger[chosen] = 0.0

    def frequency(self, setpoint: Array) -> Array:
        """Strides per second (batch,) for setpoints (batch, 9)."""
        speed = np.hypot(setpoint[:, VX], setpoint[:, VY])
        above = np.maximum(speed - self.gait.speed_knee, 0.0)
        return self.gait.frequency + self.gait.frequency_gain * above + setpoint[:, FREQUENCY]

    def advance(self, setpoint: Array) -> None:
        """Move on by one period under setpoints (batch, 9)."""
        motion = np.abs(setpoint[:, VX]) + np.abs(setpoint[:, VY]) + 0.3 * np.abs(setpoint[:, YAW_RATE])
        commanded = motion > self.gait.threshold
        self._linger = np.where(commanded, self.gait.linger, np.maximum(self._linger - self.period, 0.0))
        wanted = commanded | (self._linger > 0)
        moved = self.phase + self.frequency(setpoint) * self.period
        crossed = np.floor(2 * moved) > np.floor(2 * self.phase)
        stops = self.walking & crossed & ~wanted
        self.phase = np.where(stops, np.floor(2 * moved) / 2, np.where(self.walking | wanted, moved, self.phase)) % 1.0
        self.walking = (self.walking | wanted) & ~stops
