"""The last word on every command that leaves for the motors."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES, Robot
from unitree_lowlevel.low_command import POSITION_STOP, SERVO, LowCommand

Array = npt.NDArray[np.float64]
JOINTS = len(JOINT_NAMES)
_ZERO: Array = np.zeros(JOINTS)
_SERVO = np.full(JOINTS, SERVO, dtype=np.uint8)


def damping_command(robot: Robot) -> LowCommand:
    """The command that holds nothing and only resists motion."""
    return LowCommand(
        mode=_SERVO,
        position=np.full(JOINTS, POSITION_STOP),
        velocity=_ZERO,
        torque=_ZERO,
        stiffness=_ZERO,
        damping=np.full(JOINTS, robot.gains.damping),
    )


class CommandLimiter:
    """Keeps positions inside each side's limits and their change per `period` [s] inside the robot's slew, gains below
    the robot's bounds, and stiffness so low that a motor far from its position asks for no more than its torque limit.
    """

    def __init__(self, robot: Robot, period: float) -> None:
        self._lower, self._upper = robot.lower, robot.upper
        self._torque = robot.torque_limit
        self._step = robot.safety.max_target_rate * period
        self._max_kp, self._max_kd = robot.safety.max_kp, robot.safety.max_kd
        self._damped = damping_command(robot)
        self.last: Array = robot.lie_pose

    def start(self, position: Array) -> None:
        """Begin at measured joint positions (12,) [rad], clipped to the limits."""
        self.last = np.minimum(np.maximum(position, self._lower), self._upper)

    def follow(self, target: Array, measured: Array, kp: Array, kd: Array) -> LowCommand:
        """The command towards positions `target` for joints at `measured` [rad], with stiffness kp [Nm/rad] and damping
        kd [Nms/rad], all (12,). What is not finite becomes damping.
        """
        position = np.minimum(np.maximum(target, self.last - self._step), self.last + self._step)
        position = np.minimum(np.maximum(position, self._lower), self._upper)
        error = np.maximum(np.abs(position - measured), 1e-6)
        stiffness = np.minimum(np.minimum(kp, self._max_kp), self._torque / error)
        damping = np.minimum(kd, self._max_kd)
        if not math.isfinite(float((position + stiffness + damping).sum())):
            return self._damped
        self.last = position
        return LowCommand(_SERVO, position, _ZERO, _ZERO, np.maximum(stiffness, 0.0), np.maximum(damping, 0.0))
