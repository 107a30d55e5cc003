"""Computes the command to send from position targets: interpolation, soft start, limits."""

from __future__ import annotations

import math

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import Robot
from unitree_lowlevel.codec import DAMPING_STEP, MOTORS, POSITION_STOP, SERVO, LowCommand

_ZERO: Array = np.zeros(MOTORS)
_SERVO = np.full(MOTORS, SERVO, dtype=np.uint8)
_SMALLEST = 1e-6  # [rad, rad/s] replaces a smaller error or speed in a division


def damping_command(robot: Robot) -> LowCommand:
    """Return the damping command: no stiffness, the robot file's holding damping."""
    stop, damping = np.full(MOTORS, POSITION_STOP), robot.damping
    return LowCommand(_SERVO, stop, velocity=_ZERO, torque=_ZERO, stiffness=_ZERO, damping=damping)


def least_damping(robot: Robot, kp: Array) -> Array:
    """Return the minimum damping (12,) [Nms/rad] for stiffness kp (12,) [Nm/rad], in whole steps of the wire.

    It is min_damping_ratio times the critical damping of the rotor, which is the minimum inertia of a joint.
    """
    least = 2.0 * robot.safety.min_damping_ratio * np.sqrt(robot.armature * kp)
    return np.ceil(least / DAMPING_STEP) * DAMPING_STEP


class CommandLimiter:
    """Computes a command every `period` [s] from targets at 50 to 200 Hz. Positions are (12,) [rad], times [s].

    - A linear ramp leads from one target to the next. It takes as long as the interval between the last two targets, at
      most `longest_ramp` [s]: longer ramps are smoother and later.
    - Positions stay within the limits of each side and change no faster than the robot's slew.
    - Gains start with zero stiffness and the holding damping, and stay below the robot's bounds. Damping is never below
      `least_damping`.
    - The torque that spring and damper together command at the measured joints is within `share` of the motors' limits.
      Damping is lowered first, down to the limit; stiffness gets the rest.
    """

    def __init__(self, robot: Robot, period: float, longest_ramp: float) -> None:
        self._robot = robot
        self._lower, self._upper = robot.lower, robot.upper
        self.share = 1.0
        self._torque_limit = robot.torque_limit
        self._step = robot.safety.max_target_rate * period
        self._longest_ramp = longest_ramp
        self._damped = damping_command(robot)
        self.start(robot.rest_pose, self._damped.stiffness, self._damped.damping, 0.0)

    def start(self, position: Array, kp: Array, kd: Array, now: float) -> None:
        """Start softly at measured joint positions, clipped to the limits.

        kp [Nm/rad] and kd [Nms/rad], each (12,), are the gains after the soft start, clipped to the robot's bounds.
        """
        safety = self._robot.safety
        self._last = self._from = self._to = np.minimum(np.maximum(position, self._lower), self._upper)
        self._started, self._aimed, self._duration = now, now - self._longest_ramp, 0.0
        self._kp = np.minimum(np.maximum(kp, 0.0), safety.max_kp)
        self._least = least_damping(self._robot, self._kp)
        self._kd = np.minimum(np.maximum(kd, self._least), safety.max_kd)

    def aim(self, target: Array, now: float) -> None:
        """Start a ramp from its current position to a new target."""
        apart = now - self._aimed
        self._from, self._to = self.target(now), target
        self._aimed, self._duration = now, min(apart, self._longest_ramp)

    def target(self, now: float) -> Array:
        """Return the position of the ramp."""
        elapsed = max(now - self._aimed, 0.0)
        if elapsed >= self._duration:
            return self._to
        return self._from + elapsed / self._duration * (self._to - self._from)

    def command(self, target: Array, measured: Array, velocity: Array, now: float) -> LowCommand:
        """Return the command towards `target`, a position of the ramp, for joints at `measured` with `velocity`.
        Non-finite input gives the damping command.
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
        """Maximum torques (12,) [Nm] that a command may cause."""
        return self.share * self._torque_limit

    def _gains(self, now: float) -> tuple[Array, Array]:
        """Return stiffness and damping, each (12,), during or after the soft start."""
        share = max((now - self._started) / self._robot.safety.soft_start, 0.0)
        if share >= 1.0:
            return self._kp, self._kd
        holding = self._damped.damping
        return share * self._kp, np.maximum(holding + share * (self._kd - holding), self._least)

    def _within_torque(self, kp: Array, kd: Array, error: Array, velocity: Array) -> tuple[Array, Array]:
        """Return gains of at most kp and kd so that spring and damper together stay within the torque limits.

        Each one stays within the limits. If a joint moves away from its target, both act in the same direction: the
        spring gets the rest that the damper leaves.
        """
        speed = np.maximum(np.abs(velocity), _SMALLEST)
        kd = np.minimum(kd, np.maximum(self._torque / speed, self._least))
        left = np.where(error * velocity < 0.0, np.maximum(self._torque - kd * speed, 0.0), self._torque)
        return np.minimum(kp, left / np.maximum(np.abs(error), _SMALLEST)), kd
