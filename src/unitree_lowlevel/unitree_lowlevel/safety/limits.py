"""What the checks compare with, per joint and ready for use in every cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import Robot, Safety

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """Joint arrays (12,): positions [rad], velocities [rad/s] and torques [Nm] as the robot's file says, and its
    thresholds.
    """

    lower: Array
    upper: Array
    velocity: Array
    torque: Array
    safety: Safety


def limits_of(robot: Robot) -> Limits:
    """The limits of a robot."""
    return Limits(robot.lower, robot.upper, robot.velocity_limit, robot.torque_limit, robot.safety)
