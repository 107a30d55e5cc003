"""What a robot's sensors and its commander said, over time: the input of every replay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
SIMULTANEOUS = 1e-6  # [s] two times nearer than this are the same


@dataclass(frozen=True)
class StateAt:
    """One row of TimedStates; a fcnet_core.measured_state.MeasuredState."""

    joint_position: Array
    joint_velocity: Array
    orientation: Array
    angular_velocity: Array


@dataclass(frozen=True)
class TimedStates:
    """T states. time (T,) [s], increasing; joint_position and joint_velocity (T, 12) in JOINT_NAMES order [rad, rad/s];
    orientation (T, 4) x, y, z, w; angular_velocity (T, 3) [rad/s] in the body frame; setpoint (T, 9) in SETPOINT_FIELDS
    order; first (T,): rows at which memory must start cold, because what came before is another episode or lost.
    """

    time: Array
    joint_position: Array
    joint_velocity: Array
    orientation: Array
    angular_velocity: Array
    setpoint: Array
    first: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time)

    def at(self, row: int) -> StateAt:
        """The state in one row."""
        return StateAt(
            self.joint_position[row], self.joint_velocity[row], self.orientation[row], self.angular_velocity[row]
        )

    def rows_at(self, rate: float) -> npt.NDArray[np.int64]:
        """Which rows a controller of `rate` [Hz] would have used: at each of its cycles the newest there was.

        Cycles count from the first row and anew from every row that is marked first, so that these are always used.
        """
        starts = np.union1d([0], np.flatnonzero(self.first))
        ends = np.append(starts[1:], len(self))
        return np.concatenate([start + self._newest(start, end, rate) for start, end in zip(starts, ends, strict=True)])

    def _newest(self, start: int, end: int, rate: float) -> npt.NDArray[np.int64]:
        time = self.time[start:end] - self.time[start]
        cycles = np.arange(int(np.floor((time[-1] + SIMULTANEOUS) * rate)) + 1) / rate
        return np.searchsorted(time, cycles + SIMULTANEOUS, side="right") - 1
