"""From position targets to the command that is sent: interpolation, soft start, limits."""

from __future__ import annotations

import math

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import JOINT_NAMES, Robot
from unitree_lowlevel.codec import POSITION_STOP, SERVO, LowCommand

JOINTS = len(JOINT_NAMES)
_ZERO: Array = np.zeros(JOINTS)
_SERVO = np.full(JOINTS, SERVO, dtype=np.uint8)


def damping_command(robot: Robot) -> LowCommand:
    """The command that holds nothing and only resists motion."""
    stop, damping = np.full(JOINTS, POSITION_STOP), np.full(JOINTS, robot.gains.damping)
    return LowCommand(_SERVO, stop, velocity=_ZERO, torque=_ZERO, stiffness=_ZERO, damping=damping)


class CommandLimiter:
    """Makes a command every `period` [s] from targets that come at 50 to 200 Hz. Positions are (12,) [rad], times [s].

    A ramp leads evenly from one target to the next. It takes as long as the last two targets were apart, at most
    `longest_ramp` [s]: longer would be smoother and later. Positions stay inside each side's limits and change no
    faster than the robot's slew. Gains begin with no stiffness and the robot's holding damping, stay below the robot's
    bounds, and stiffness is so low that a motor far from its position asks for no more than its torque limit.
    """

    def __init__(self, robot: Robot, period: float, longest_ramp: float) -> None:
        self._lower, self._upper = robot.lower, robot.upper
        self._torque = robot.torque_limit
        self._step = robot.safety.max_target_rate * period
        self._max_kp, self._max_kd = robot.safety.max_kp, robot.safety.max_kd
        self._soft_start, self._holding = robot.safety.soft_start, robot.gains.damping
        self._longest_ramp = longest_ramp
        self._damped = damping_command(robot)
        self.start(robot.lie_pose, 0.0)

    def start(self, position: Array, now: float) -> None:
        """Begin softly at measured joint positions, clipped to the limits."""
        self._last = self._from = self._to = np.minimum(np.maximum(position, self._lower), self._upper)
        self._started, self._aimed, self._duration = now, now - self._longest_ramp, 0.0

    def aim(self, target: Array, now: float) -> None:
        """Go to a new target from wherever the ramp is."""
        apart = now - self._aimed
        self._from, self._to = self.target(now), target
        self._aimed, self._duration = now, min(apart, self._longest_ramp)

    def target(self, now: float) -> Array:
        """The ramp's position."""
        elapsed = max(now - self._aimed, 0.0)
        if elapsed >= self._duration:
            return self._to
        return self._from + elapsed / self._duration * (self._to - self._from)

    def command(self, target: Array, measured: Array, kp: Array, kd: Array, now: float) -> LowCommand:
        """The command towards `target`, of the ramp, for joints at `measured`, with stiffness kp [Nm/rad] and damping
        kd [Nms/rad], each (12,), once the start is over. What is not finite becomes damping.
        """
        share = (now - self._started) / self._soft_start
        if share < 1.0:
            share = max(share, 0.0)
            kp, kd = share * kp, self._holding + share * (kd - self._holding)
        position = np.minimum(np.maximum(target, self._last - self._step), self._last + self._step)
        position = np.minimum(np.maximum(position, self._lower), self._upper)
        error = np.maximum(np.abs(position - measured), 1e-6)
        stiffness = np.minimum(np.minimum(kp, self._max_kp), self._torque / error)
        damping = np.minimum(kd, self._max_kd)
        if not math.isfinite(float((position + stiffness + damping).sum())):
            return self._damped
        self._last = position
        return LowCommand(_SERVO, position, _ZERO, _ZERO, np.maximum(stiffness, 0.0), np.maximum(damping, 0.0))
