"""What went into one step of a policy, told so that a recording can be replayed to the last digit.

A bag holds every state and command, but not which of them a cycle had when it began; this says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.command import COMMAND_SIZE

Array = npt.NDArray[np.float64]
SCALARS = ("target_stamp", "previous_stamp", "joints_stamp", "imu_stamp", "cold")
LABEL = f"{', '.join(SCALARS)}, command[{COMMAND_SIZE}]"
SIZE = len(SCALARS) + COMMAND_SIZE


@dataclass(frozen=True)
class PolicyStep:
    """One step. Stamps [s] of the message that carried its targets, of the one sent before, and of the joint_states and
    imu/data it saw (as a double they are good to half a microsecond); cold: whether it was the first after a reset;
    command (16,), see command.py.
    """

    target_stamp: float
    previous_stamp: float
    joints_stamp: float
    imu_stamp: float
    cold: bool
    command: Array

    def vector(self) -> Array:
        """The step as the numbers (21,) that LABEL names."""
        scalars = [self.target_stamp, self.previous_stamp, self.joints_stamp, self.imu_stamp, self.cold]
        return np.concatenate([scalars, self.command])
