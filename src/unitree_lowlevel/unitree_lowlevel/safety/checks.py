"""The checks that compare one state or target with the robot's limits."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES, Robot, Safety
from unitree_lowlevel.messages import Array


class Severity(IntEnum):
    """What a finding does: only be told; also stop or keep joints from following; or latch damping in any case."""

    WARNING = 0
    NO_FOLLOWING = 1
    ALWAYS = 2


@dataclass(frozen=True)
class Finding:
    """Something is not as it should be: the name of the check and a reason in words."""

    name: str
    reason: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Trip:
    """Why the joints were let go: the name of the check, a reason in words, and when [s, time.monotonic]."""

    name: str
    reason: str
    time: float

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


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


REMOTE_STOP = "remote_stop"


def check_remote(chords: Collection[frozenset[str]], buttons: frozenset[str]) -> Finding | None:
    """A trip when all buttons of one of the chords are pressed."""
    for chord in chords:
        if chord and chord <= buttons:
            return Finding(REMOTE_STOP, f"{' + '.join(sorted(chord))} is pressed on the remote", Severity.ALWAYS)
    return None


TILT = "tilt"


def check_tilt(limits: Limits, orientation: npt.NDArray[np.float64]) -> str | None:
    """A reason when the trunk's z axis, from the orientation (4,) x, y, z, w, is too far from the vertical."""
    x, y, _, _ = orientation.tolist()
    tilt = math.acos(min(1.0, max(-1.0, 1.0 - 2.0 * (x * x + y * y))))
    if tilt <= limits.safety.max_tilt:
        return None
    return f"the robot is tilted by {tilt:.2f} rad, the limit is {limits.safety.max_tilt:g} rad; set it on its belly"


JOINT_POSITION = "joint_position"


def check_position(limits: Limits, position: npt.NDArray[np.float64]) -> str | None:
    """A reason when a measured position (12,) [rad] lies outside its side's limits by more than the margin."""
    excess = np.maximum(limits.lower - position, position - limits.upper)
    worst = int(excess.argmax())
    if excess[worst] <= limits.safety.position_margin:
        return None
    return (
        f"{JOINT_NAMES[worst]} is at {position[worst]:.2f} rad, its limits are {limits.lower[worst]:g} to "
        f"{limits.upper[worst]:g} rad; move the leg by hand, or is this another robot?"
    )


JOINT_VELOCITY = "joint_velocity"


def check_velocity(limits: Limits, velocity: npt.NDArray[np.float64]) -> str | None:
    """A reason when a joint's velocity (12,) [rad/s] is beyond the accepted share of its limit."""
    share = np.abs(velocity) / limits.velocity
    worst = int(share.argmax())
    if share[worst] <= limits.safety.max_velocity:
        return None
    return (
        f"{JOINT_NAMES[worst]} turns at {velocity[worst]:.1f} rad/s, accepted are "
        f"{limits.safety.max_velocity * limits.velocity[worst]:.1f}; look for shaking joints (gains, policy)"
    )


JOINT_TORQUE = "joint_torque"


def check_torque(limits: Limits, torque: npt.NDArray[np.float64]) -> str | None:
    """A reason when an estimated torque (12,) [Nm] is beyond the accepted share of its limit."""
    share = np.abs(torque) / limits.torque
    worst = int(share.argmax())
    if share[worst] <= limits.safety.max_torque:
        return None
    return (
        f"{JOINT_NAMES[worst]} gives {torque[worst]:.1f} Nm of its {limits.torque[worst]:g} Nm without a pause; "
        "free the leg or lighten the robot"
    )


JOINT_ERROR = "joint_error"


def check_joint_error(limits: Limits, target: Array, position: Array) -> str | None:
    """A reason when a measured position is too far from its target, both (12,) [rad]."""
    error = np.abs(target - position)
    worst = int(error.argmax())
    if error[worst] <= limits.safety.max_joint_error:
        return None
    return (
        f"{JOINT_NAMES[worst]} is {error[worst]:.2f} rad from its target, the limit is "
        f"{limits.safety.max_joint_error:g} rad; look for a blocked leg or a motor without power"
    )


MOTOR_POWER = "motor_power"


def check_power(limits: Limits, torque: npt.NDArray[np.float64], velocity: npt.NDArray[np.float64]) -> str | None:
    """A reason when the sum of |torque x velocity| of torques [Nm] and velocities [rad/s] (12,) is beyond the limit.

    The sum is that of the vendor's PowerProtect, which ends the process instead.
    """
    power = float(np.abs(torque * velocity).sum())
    if power <= limits.safety.max_power:
        return None
    return f"the motors turn {power:.0f} W, accepted are {limits.safety.max_power:g} W; look for shaking joints"


TEMPERATURE = "temperature"


def check_temperature(limits: Limits, temperature: npt.NDArray[np.float64]) -> Finding | None:
    """A warning, then a trip, for motor temperatures (12,) [deg C]."""
    worst = int(temperature.argmax())
    hottest = float(temperature[worst])
    if hottest < limits.safety.temperature_warning:
        return None
    motor = f"the motor of {JOINT_NAMES[worst]} has {hottest:.0f} C"
    if hottest < limits.safety.max_temperature:
        return Finding(
            TEMPERATURE, f"{motor}, the limit is {limits.safety.max_temperature:g} C; rest soon", Severity.WARNING
        )
    return Finding(
        TEMPERATURE, f"{motor}, the limit is {limits.safety.max_temperature:g} C; let it cool", Severity.ALWAYS
    )


TARGET_JUMP = "target_jump"


def check_jump(limits: Limits, last: Array, target: Array, elapsed: float) -> str | None:
    """A reason when targets (12,) [rad] have jumped from the last ones, `elapsed` [s] ago.

    Two targets may arrive at once, so a step is accepted on top of the slew.
    """
    jump = np.abs(target - last)
    worst = int(jump.argmax())
    accepted = limits.safety.max_target_jump + limits.safety.max_target_rate * elapsed
    if jump[worst] <= accepted:
        return None
    return (
        f"the target of {JOINT_NAMES[worst]} jumped by {jump[worst]:.2f} rad in {elapsed * 1e3:.0f} ms, accepted are "
        f"{accepted:.2f} rad; look at who sends joint_trajectory"
    )


def check_start(limits: Limits, position: Array, target: Array) -> str | None:
    """A reason when the first targets (12,) [rad] are not where the joints are, at `position` (12,) [rad]."""
    distance = np.abs(target - position)
    worst = int(distance.argmax())
    if distance[worst] <= limits.safety.max_start_error:
        return None
    return (
        f"the first target of {JOINT_NAMES[worst]} is {distance[worst]:.2f} rad away, accepted are "
        f"{limits.safety.max_start_error:g} rad; damp, then begin where the joints are"
    )
