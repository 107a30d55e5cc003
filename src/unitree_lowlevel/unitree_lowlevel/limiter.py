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


class TargetRamp:
    """Moves evenly from one target to the next: targets come at 50 to 200 Hz, motors are commanded at 500 Hz.

    A ramp takes as long as the last two targets were apart, at most `longest` [s]: longer would be smoother and later.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._from = self._to = _ZERO
        self._began = self._duration = 0.0

    def start(self, position: Array, now: float) -> None:
        """Begin at joint positions (12,) [rad] at time `now` [s]."""
        self._from = self._to = position
        self._began, self._duration = now - self._longest, 0.0

    def aim(self, target: Array, now: float) -> None:
        """Go to a new target (12,) [rad] from wherever the ramp is at time `now` [s]."""
        apart = now - self._began
        self._from, self._to = self.position(now), target
        self._began, self._duration = now, min(apart, self._longest)

    def position(self, now: float) -> Array:
        """Position of the ramp (12,) [rad] at time `now` [s]."""
        elapsed = now - self._began
        if elapsed >= self._duration:
            return self._to
        return self._from + max(elapsed, 0.0) / self._duration * (self._to - self._from)


class SoftStart:
    """Ramps the gains from no stiffness and the robot's holding `damping` [Nms/rad] within `duration` [s]."""

    def __init__(self, duration: float, damping: float) -> None:
        self._duration = duration
        self._damping = damping
        self._began = 0.0

    def begin(self, now: float) -> None:
        """Start at time `now` [s]."""
        self._began = now

    def gains(self, kp: Array, kd: Array, now: float) -> tuple[Array, Array]:
        """Stiffness [Nm/rad] and damping [Nms/rad], each (12,), at time `now` [s] on the way to kp and kd (12,)."""
        share = (now - self._began) / self._duration
        if share >= 1.0:
            return kp, kd
        share = max(share, 0.0)
        return share * kp, self._damping + share * (kd - self._damping)


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
