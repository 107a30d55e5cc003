"""From position targets to the command that is sent: interpolation, soft start, limits."""

from __future__ import annotations

import math

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import JOINT_NAMES, Robot
from unitree_lowlevel.codec import DAMPING_STEP, POSITION_STOP, SERVO, LowCommand

JOINTS = len(JOINT_NAMES)
_ZERO: Array = np.zeros(JOINTS)
_SERVO = np.full(JOINTS, SERVO, dtype=np.uint8)
_SMALLEST = 1e-6  # [rad, rad/s] stands for a smaller error or speed


def damping_command(robot: Robot) -> LowCommand:
    """The command that holds nothing and only resists motion."""
    stop, damping = np.full(JOINTS, POSITION_STOP), np.full(JOINTS, robot.gains.damping)
    return LowCommand(_SERVO, stop, velocity=_ZERO, torque=_ZERO, stiffness=_ZERO, damping=damping)


def least_damping(robot: Robot, kp: Array) -> Array:
    """The least damping (12,) [Nms/rad], in whole steps of the wire, that stiffness kp (12,) [Nm/rad] may go with.

    It is min_damping_ratio of what damps critically the inertia that no joint is without, its rotor's.
    """
    least = 2.0 * robot.safety.min_damping_ratio * np.sqrt(robot.armature * kp)
    return np.ceil(least / DAMPING_STEP) * DAMPING_STEP


class CommandLimiter:
    """Makes a command every `period` [s] from targets that come at 50 to 200 Hz. Positions are (12,) [rad], times [s].

    A ramp leads evenly from one target to the next. It takes as long as the last two targets were apart, at most
    `longest_ramp` [s]: longer would be smoother and later. Positions stay inside each side's limits and change no
    faster than the robot's slew. Gains begin with no stiffness and the robot's holding damping, stay below the robot's
    bounds, and damping is never below `least_damping`. The torque that a command asks of the joints as they are
    measured, of spring and damper together, is within the motors' limits: damping is lowered first, as far as it is
    more than what the limit leaves it, and stiffness gets the rest. `share`: of the motors' limits, that may be asked.
    """

    def __init__(self, robot: Robot, period: float, longest_ramp: float) -> None:
        self._robot = robot
        self._lower, self._upper = robot.lower, robot.upper
        self.share = 1.0
        self._torque_limit = robot.torque_limit
        self._step = robot.safety.max_target_rate * period
        self._longest_ramp = longest_ramp
        self._damped = damping_command(robot)
        self.start(robot.lie_pose, self._damped.stiffness, self._damped.damping, 0.0)

    def start(self, position: Array, kp: Array, kd: Array, now: float) -> None:
        """Begin softly at measured joint positions, clipped to the limits, with stiffness kp [Nm/rad] and damping kd
        [Nms/rad], each (12,), once the start is over; these are cut to the robot's bounds.
        """
        safety = self._robot.safety
        self._last = self._from = self._to = np.minimum(np.maximum(position, self._lower), self._upper)
        self._started, self._aimed, self._duration = now, now - self._longest_ramp, 0.0
        self._kp = np.minimum(np.maximum(kp, 0.0), safety.max_kp)
        self._least = least_damping(self._robot, self._kp)
        self._kd = np.minimum(np.maximum(kd, self._least), safety.max_kd)

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

    def command(self, target: Array, measured: Array, velocity: Array, now: float) -> LowCommand:
        """The command towards `target`, of the ramp, for joints at `measured` that move with `velocity` [rad/s]. What
        is not finite becomes damping.
        """
        position = np.minimum(np.maximum(target, self._last - self._step), self._last + self._step)
        position = np.minimum(np.maximum(position, self._lower), self._upper)
        kp, kd = self._gains(now)
        error = position - measured
        if not (kp * np.abs(error) + kd * np.abs(velocity) <= self._torque).all():
            kp, kd = self._within_torque(kp, kd, error, velocity)
        if not math.isfinite(float((position + kp + kd).sum())):
            return self._damped
        self._last = position
        return LowCommand(_SERVO, position, _ZERO, _ZERO, kp, kd)

    @property
    def _torque(self) -> Array:
        """Torques (12,) [Nm] that a command may ask."""
        return self.share * self._torque_limit

    def _gains(self, now: float) -> tuple[Array, Array]:
        """Stiffness and damping, each (12,), of the soft start or after it."""
        share = max((now - self._started) / self._robot.safety.soft_start, 0.0)
        if share >= 1.0:
            return self._kp, self._kd
        holding = self._damped.damping
        return share * self._kp, np.maximum(holding + share * (self._kd - holding), self._least)

    def _within_torque(self, kp: Array, kd: Array, error: Array, velocity: Array) -> tuple[Array, Array]:
        """Gains, at most kp and kd, with which spring and damper together ask for no more than the torque limits.

        Each alone stays within them. In a joint that moves away from its target both pull the same way: there the
        spring gets what the damper leaves.
        """
        speed = np.maximum(np.abs(velocity), _SMALLEST)
        kd = np.minimum(kd, np.maximum(self._torque / speed, self._least))
        left = np.where(error * velocity < 0.0, np.maximum(self._torque - kd * speed, 0.0), self._torque)
        return np.minimum(kp, left / np.maximum(np.abs(error), _SMALLEST)), kd
