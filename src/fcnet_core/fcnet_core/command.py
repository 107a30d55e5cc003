"""From setpoints (what a person asks for) to the 16-dimensional command vector (what a policy sees).

Index of the command vector: 0 vx [m/s], 1 vy [m/s], 2 yaw rate [rad/s], 3 body height offset [m], 4 roll [rad],
5 pitch [rad], 6 stance width - 1, 7 foot clearance offset [m], 8 sine and 9 cosine of the gait phase, 10 walk flag,
11 stride frequency offset [Hz], 12-15 zero.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.gait_clock import GaitClock
from fcnet_core.robot import SETPOINT_FIELDS, CommandRange, Gait

Array = npt.NDArray[np.float64]
COMMAND_SIZE = 16


class CommandShaper:
    """Limits setpoints in range and rate, keeps the gait clock, and writes the command vector of `batch` robots."""

    def __init__(self, ranges: dict[str, CommandRange], gait: Gait, period: float, batch: int = 1) -> None:
        self._lowest = np.array([ranges[field].lowest for field in SETPOINT_FIELDS])
        self._highest = np.array([ranges[field].highest for field in SETPOINT_FIELDS])
        self._step = np.array([ranges[field].rate for field in SETPOINT_FIELDS]) * period
        self.clock = GaitClock(gait, period, batch)
        self.setpoint: Array = np.zeros((batch, len(SETPOINT_FIELDS)))

    def reset(self, mask: npt.NDArray[np.bool_] | None = None) -> None:
        """Return the robots in `mask` (batch,), or all, to a zero setpoint and a clock at rest."""
        self.clock.reset(mask)
        self.setpoint[slice(None) if mask is None else mask] = 0.0

    def step(self, wanted: npt.ArrayLike) -> Array:
        """Take one period's step towards setpoints (batch, 9) in SETPOINT_FIELDS order; return commands (batch, 16).

        A NaN raises ValueError before anything changes.
        """
        target = np.asarray(wanted, dtype=np.float64).reshape(self.setpoint.shape)
        if np.isnan(target).any():
            raise ValueError("a setpoint is not a number; send finite commands")
        target = np.clip(target, self._lowest, self._highest)
        self.setpoint = self.setpoint + np.clip(target - self.setpoint, -self._step, self._step)
        self.clock.advance(self.setpoint)
        return self.command()

    def command(self) -> Array:
        """The command vectors (batch, 16) of the current setpoints and phases."""
        command = np.zeros((len(self.setpoint), COMMAND_SIZE))
        command[:, 0:8] = self.setpoint[:, 0:8]
        command[:, 8] = np.sin(2 * np.pi * self.clock.phase)
        command[:, 9] = np.cos(2 * np.pi * self.clock.phase)
        command[:, 10] = self.clock.walking
        command[:, 11] = self.setpoint[:, 8]
        return command
