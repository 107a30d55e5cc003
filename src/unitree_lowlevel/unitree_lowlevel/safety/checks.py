"""Findings, and the checks that compare one state or one target with the limits of the robot."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from fcnet_core.robot import JOINT_NAMES, Robot
from unitree_lowlevel.messages import Array

REMOTE_STOP = "remote_stop"
TILT = "tilt"
JOINT_POSITION = "joint_position"
JOINT_VELOCITY = "joint_velocity"
JOINT_TORQUE = "joint_torque"
JOINT_ERROR = "joint_error"
MOTOR_POWER = "motor_power"
TEMPERATURE = "temperature"
TARGET_JUMP = "target_jump"


class Severity(IntEnum):
    """The effect of a finding."""

    WARNING = 0
    TRIP_IF_FOLLOWING = 1  # latches damping while joints follow targets, and keeps them from beginning to
    TRIP = 2  # latches damping in any mode


@dataclass(frozen=True, eq=False)  # a trip that comes back with the same words is another trip
class Finding:
    """The name of a check that has failed and the reason, a sentence that a user can act on."""

    name: str
    reason: str
    severity: Severity = Severity.TRIP_IF_FOLLOWING

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def check_remote(chords: Collection[frozenset[str]], buttons: frozenset[str]) -> Finding | None:
    """The emergency stop of the wireless remote: a trip when all buttons of one of the chords are pressed."""
    for chord in chords:
        if chord and chord <= buttons:
            return Finding(REMOTE_STOP, f"{' + '.join(sorted(chord))} is pressed on the remote", Severity.TRIP)
    return None


class RobotChecks:
    """The checks with the limits and thresholds of one robot; each returns a Finding or None.

    Joint arrays are (12,) in JOINT_NAMES order: positions [rad], velocities [rad/s], torques [Nm].
    """

    def __init__(self, robot: Robot) -> None:
        self.lower, self.upper = robot.lower, robot.upper
        self._velocity_limit, self._torque_limit = robot.velocity_limit, robot.torque_limit
        self._safety = robot.safety

    def position(self, position: Array) -> Finding | None:
        """Measured positions outside the limits of their side by more than the margin."""
        excess = np.maximum(self.lower - position, position - self.upper)
        worst = int(excess.argmax())
        if excess[worst] <= self._safety.position_margin:
            return None
        return Finding(
            JOINT_POSITION,
            f"{JOINT_NAMES[worst]} is at {position[worst]:.2f} rad, its limits are {self.lower[worst]:g} to "
            f"{self.upper[worst]:g} rad; move the leg by hand, or is this another robot?",
        )

    def velocity(self, velocity: Array) -> Finding | None:
        """Measured velocities beyond the accepted share of the motor's limit."""
        share = np.abs(velocity) / self._velocity_limit
        worst = int(share.argmax())
        if share[worst] <= self._safety.max_velocity:
            return None
        return Finding(
            JOINT_VELOCITY,
            f"{JOINT_NAMES[worst]} turns at {velocity[worst]:.1f} rad/s, accepted are "
            f"{self._safety.max_velocity * self._velocity_limit[worst]:.1f}; look for shaking joints (gains, policy)",
        )

    def torque(self, torque: Array) -> Finding | None:
        """Estimated torques beyond the accepted share of the motor's limit: for long they heat it."""
        share = np.abs(torque) / self._torque_limit
        worst = int(share.argmax())
        if share[worst] <= self._safety.max_torque:
            return None
        return Finding(
            JOINT_TORQUE,
            f"{JOINT_NAMES[worst]} gives {torque[worst]:.1f} Nm of its {self._torque_limit[worst]:g} Nm without a "
            "pause; free the leg or lighten the robot",
        )

    def power(self, torque: Array, velocity: Array) -> Finding | None:
        """The sum of |torque x velocity| beyond the limit, as in the vendor's PowerProtect, which ends the process."""
        power = float(np.abs(torque * velocity).sum())
        if power <= self._safety.max_power:
            return None
        return Finding(
            MOTOR_POWER,
            f"the motors turn {power:.0f} W, accepted are {self._safety.max_power:g} W; look for shaking joints",
        )

    def joint_error(self, target: Array, position: Array) -> Finding | None:
        """Measured positions too far from their targets."""
        error = np.abs(target - position)
        worst = int(error.argmax())
        if error[worst] <= self._safety.max_joint_error:
            return None
        return Finding(
            JOINT_ERROR,
            f"{JOINT_NAMES[worst]} is {error[worst]:.2f} rad from its target, the limit is "
            f"{self._safety.max_joint_error:g} rad; look for a blocked leg or a motor without power",
        )

    def temperature(self, temperature: Array) -> Finding | None:
        """Motor temperatures [deg C]: a warning, then a trip."""
        worst = int(temperature.argmax())
        hottest, limit = float(temperature[worst]), self._safety.max_temperature
        if hottest < self._safety.temperature_warning:
            return None
        reason = f"the motor of {JOINT_NAMES[worst]} has {hottest:.0f} C, the limit is {limit:g} C"
        if hottest < limit:
            return Finding(TEMPERATURE, f"{reason}; rest soon", Severity.WARNING)
        return Finding(TEMPERATURE, f"{reason}; let it cool", Severity.TRIP)

    def tilt(self, orientation: Array) -> Finding | None:
        """The trunk's z axis, from the orientation (4,) x, y, z, w, too far from the vertical."""
        x, y, _, _ = orientation.tolist()
        tilt, limit = math.acos(min(1.0, max(-1.0, 1.0 - 2.0 * (x * x + y * y)))), self._safety.max_tilt
        if tilt <= limit:
            return None
        return Finding(TILT, f"the robot is tilted by {tilt:.2f} rad, the limit is {limit:g} rad; set it on its belly")

    def target_jump(self, last: Array, target: Array, elapsed: float) -> Finding | None:
        """Targets that have jumped from the last ones, `elapsed` [s] ago.

        Two targets may arrive at once, so a step is accepted on top of the slew.
        """
        jump = np.abs(target - last)
        worst = int(jump.argmax())
        accepted = self._safety.max_target_jump + self._safety.max_target_rate * elapsed
        if jump[worst] <= accepted:
            return None
        return Finding(
            TARGET_JUMP,
            f"the target of {JOINT_NAMES[worst]} jumped by {jump[worst]:.2f} rad in {elapsed * 1e3:.0f} ms, accepted "
            f"are {accepted:.2f} rad; look at who sends joint_trajectory",
        )

    def first_target(self, position: Array, target: Array) -> str | None:
        """Why these first targets are refused: they are too far from the measured positions."""
        distance = np.abs(target - position)
        worst = int(distance.argmax())
        if distance[worst] <= self._safety.max_start_error:
            return None
        return (
            f"the first target of {JOINT_NAMES[worst]} is {distance[worst]:.2f} rad away, accepted are "
            f"{self._safety.max_start_error:g} rad; damp, then begin where the joints are"
        )
