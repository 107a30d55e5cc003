"""All facts of a robot, read from config/robots/<robot>.yaml."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.files import CONFIG, Count, NotNegative, Number, Positive, read_settings
from fcnet_core.names import SETPOINT_UNITS

ROBOT_FOLDER = CONFIG / "robots"
LEGS = ("FR", "FL", "RR", "RL")
LEG_JOINTS = ("hip", "thigh", "calf")
JOINT_NAMES = tuple(f"{leg}_{joint}_joint" for leg in LEGS for joint in LEG_JOINTS)
SETPOINT_FIELDS = tuple(SETPOINT_UNITS)
Vector = tuple[Number, Number, Number]


class Joint(Struct, frozen=True, forbid_unknown_fields=True):
    """One of the three joints of a leg: limits [rad, Nm, rad/s] and passive dynamics.

    The motor gives its full torque up to full_torque_speed [rad/s], then linearly less, down to zero at `velocity`.
    """

    right: tuple[Number, Number]
    left: tuple[Number, Number]
    torque: Positive
    velocity: Positive
    full_torque_speed: Positive
    armature: NotNegative
    damping: NotNegative
    friction: NotNegative

    def __post_init__(self) -> None:
        if not self.full_torque_speed < self.velocity:
            raise ValueError("full_torque_speed must be below velocity")


class Geometry(Struct, frozen=True, forbid_unknown_fields=True):
    """Lengths of trunk and legs [m]; trunk: half of its sizes."""

    hip_x: Positive
    hip_y: Positive
    abduction: Positive
    thigh: Positive
    calf: Positive
    foot_radius: Positive
    trunk: Vector


class Contact(Struct, frozen=True, forbid_unknown_fields=True):
    """Friction of the feet: sliding, torsional [m] and rolling [m]; impratio: MuJoCo's contact setting."""

    friction: tuple[Positive, NotNegative, NotNegative]
    impratio: Positive


class Body(Struct, frozen=True, forbid_unknown_fields=True):
    """Mass [kg], centre of mass [m] and diagonal inertia [kg m^2] of one link."""

    mass: Positive
    com: Vector
    inertia: tuple[Positive, Positive, Positive]


class Gains(Struct, frozen=True, forbid_unknown_fields=True):
    """Joint stiffness kp [Nm/rad] and damping kd [Nms/rad]; damping: kd of a robot without a command [Nms/rad]."""

    kp: Positive
    kd: Positive
    damping: Positive


class Gait(Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the gait clock, see command.GaitClock."""

    frequency: Positive
    frequency_gain: NotNegative
    speed_knee: NotNegative
    linger: NotNegative
    threshold: NotNegative


class CommandRange(Struct, frozen=True, array_like=True):
    """Lowest and highest value of a setpoint field and its maximum change per second; in the file a list of three."""

    lowest: Number
    highest: Number
    rate: Number

    def clip(self, value: float) -> float:
        """Clip a value to the range."""
        return min(max(value, self.lowest), self.highest)


class Safety(Struct, frozen=True, forbid_unknown_fields=True):
    """Thresholds of controller and bridge; the robot files give the reasons for the values.

    Trunk: max_tilt [rad] against gravity; max_fall_rate [rad/s] about its horizontal axes, over fall_rate_time [s].
    Joints: max_joint_error [rad] for joint_error_time [s], target against measurement; position_margin [rad] of
    measurements beyond the limits; max_velocity_mismatch [rad] between position changes and integrated velocities;
    max_velocity for velocity_time [s] and max_torque for torque_time [s], as shares of the limits; max_power [W] for
    power_time [s]; servo_lost_time [s] of a motor outside its servo mode; temperature_warning, max_temperature [deg C].
    Targets: max_target_rate [rad/s], slew limit; max_target_jump [rad] of one target beyond the slew; mean_target_rate
    [rad/s], average path speed, and max_target_path [rad] beyond it; max_start_error [rad] of the first target.
    Times and ages [s]: command_timeout, state_timeout; max_cycle_gap between two cycles of the loop to the motors;
    max_loop_lateness of its cycles on average; frozen_time without a change of a sensor; remote_timeout without a
    change of a remote in use. packet_loss_warning, max_packet_loss: shares. Gains: max_kp [Nm/rad], max_kd [Nms/rad];
    min_damping_ratio, minimum kd as a share of 2 sqrt(kp x armature); soft_start [s], ramp to the full gains.
    """

    max_tilt: Positive
    max_joint_error: Positive
    joint_error_time: Positive
    max_target_rate: Positive
    max_target_jump: Positive
    mean_target_rate: Positive
    max_target_path: Positive
    max_start_error: Positive
    max_fall_rate: Positive
    fall_rate_time: Positive
    position_margin: Positive
    max_velocity_mismatch: Positive
    max_velocity: Positive
    velocity_time: Positive
    max_torque: Positive
    torque_time: Positive
    max_power: Positive
    power_time: Positive
    servo_lost_time: Positive
    temperature_warning: Positive
    max_temperature: Positive
    command_timeout: Positive
    state_timeout: Positive
    max_cycle_gap: Positive
    max_loop_lateness: Positive
    remote_timeout: Positive
    frozen_time: Positive
    packet_loss_warning: Positive
    max_packet_loss: Positive
    max_kp: Positive
    max_kd: Positive
    min_damping_ratio: Positive
    soft_start: Positive

    def __post_init__(self) -> None:
        if self.temperature_warning >= self.max_temperature or self.packet_loss_warning >= self.max_packet_loss:
            raise ValueError("safety: warnings of temperature and packet loss must be below their limits")
        if self.max_cycle_gap >= min(self.command_timeout, self.state_timeout):
            raise ValueError("safety.max_cycle_gap must be below command_timeout and state_timeout")


class Poses(Struct, frozen=True, forbid_unknown_fields=True):
    """Hip, thigh and calf of every leg [rad], standing and lying."""

    stand: Vector
    lie: Vector


class RollStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One pose of a roll, reached after `duration` [s].

    lower, upper: hip outwards, thigh and calf [rad] of the legs on the side towards which the robot rolls, and on the
    other side.
    """

    duration: Positive
    lower: Vector
    upper: Vector


class Recovery(Struct, frozen=True, forbid_unknown_fields=True):
    """How a fallen robot turns onto its belly (recovery.py), and the limits that a bridge enforces (driver.py).

    roll: poses in turn. fold_tilt [rad]: tilt below which a roll stops and the legs fold, at fold_speed [rad/s];
    max_tilt [rad]: maximum that counts as upright, at rest. attempts, max_time [s]: limits of the motion; max_rate
    [rad/s]: limit of the trunk about its horizontal axes, averaged over fall_rate_time; torque: share of the motors'.
    """

    roll: Annotated[tuple[RollStep, ...], Meta(min_length=1, max_length=10)]
    fold_tilt: Positive
    fold_speed: Positive
    max_tilt: Positive
    attempts: Count
    max_time: Positive
    max_rate: Positive
    torque: Annotated[float, Meta(gt=0, le=1)]


class Robot(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One robot as in its file. Vectors (12,) are in JOINT_NAMES order (FR, FL, RR, RL; hip, thigh, calf)."""

    name: str
    legs: tuple[str, ...]
    joints: dict[str, Joint]
    poses: Poses
    gains: Gains
    geometry: Geometry
    nominal_height: Positive
    contact: Contact
    bodies: dict[str, Body]
    gait: Gait
    commands: dict[str, CommandRange]
    safety: Safety
    recovery: Recovery | None = None  # None: no motion is known for this robot

    def __post_init__(self) -> None:
        if self.legs != LEGS:
            raise ValueError(f"legs must be {list(LEGS)}")
        named: dict[str, tuple[Iterable[str], tuple[str, ...]]] = {
            "joints": (self.joints, LEG_JOINTS),
            "bodies": (self.bodies, ("trunk", *LEG_JOINTS)),
            "commands": (self.commands, SETPOINT_FIELDS),
        }
        for entry, (found, expected) in named.items():
            if odd := sorted(set(found) ^ set(expected)):
                raise ValueError(f"{entry} must be given for exactly {', '.join(expected)}; see {odd[0]}")
        if not (self.lower < self.upper).all():
            raise ValueError("a joint's lower limit is not below its upper limit")
        for pose in (self.stand_pose, self.lie_pose):
            if not ((self.lower <= pose) & (pose <= self.upper)).all():
                raise ValueError("a pose lies outside the joint limits")
        if self.recovery and not self.recovery.max_tilt <= self.recovery.fold_tilt <= self.safety.max_tilt:
            raise ValueError("recovery.max_tilt must be at most fold_tilt, and fold_tilt at most safety.max_tilt")
        if self.gains.kp > self.safety.max_kp or max(self.gains.kd, self.gains.damping) > self.safety.max_kd:
            raise ValueError("the gains are above safety.max_kp or safety.max_kd")
        for field, limits in self.commands.items():
            if not (limits.lowest <= 0 <= limits.highest and limits.rate > 0):
                raise ValueError(f"the range of command {field} must contain 0 and its rate must be positive")

    @cached_property
    def stand_pose(self) -> Array:
        """Joint positions (12,) [rad] of a standing robot."""
        return np.tile(np.array(self.poses.stand), len(LEGS))

    @cached_property
    def lie_pose(self) -> Array:
        """Joint positions (12,) [rad] of a lying robot."""
        return np.tile(np.array(self.poses.lie), len(LEGS))

    @property
    def lower(self) -> Array:
        """Lowest joint positions (12,) [rad]."""
        return self._limits(0)

    @property
    def upper(self) -> Array:
        """Highest joint positions (12,) [rad]."""
        return self._limits(1)

    @property
    def torque_limit(self) -> Array:
        """Maximum joint torques (12,) [Nm]."""
        return self._of_joints("torque")

    @property
    def velocity_limit(self) -> Array:
        """Maximum joint velocities (12,) [rad/s]."""
        return self._of_joints("velocity")

    def torque_bounds(self, velocity: Array) -> tuple[Array, Array]:
        """Return lowest and highest torques (..., 12) [Nm] of the motors at joint velocities (..., 12) [rad/s]."""
        limit, fastest = self.torque_limit, self.velocity_limit
        slope = limit / (fastest - self._of_joints("full_torque_speed"))
        lowest, highest = slope * (-fastest - velocity), slope * (fastest - velocity)
        return np.clip(lowest, -limit, limit), np.clip(highest, -limit, limit)

    @property
    def armature(self) -> Array:
        """Rotor inertias (12,) [kg m^2] at the joints."""
        return self._of_joints("armature")

    @property
    def mass(self) -> float:
        """Mass of the whole robot [kg]."""
        return self.bodies["trunk"].mass + 4 * sum(self.bodies[name].mass for name in LEG_JOINTS)

    def _of_joints(self, field: str) -> Array:
        return np.array([getattr(self.joints[joint], field) for _ in LEGS for joint in LEG_JOINTS])

    def _limits(self, end: int) -> Array:
        sides = [("right" if leg.endswith("R") else "left") for leg in LEGS]
        return np.array([getattr(self.joints[joint], side)[end] for side in sides for joint in LEG_JOINTS])


def load_robot(name: str | Path) -> Robot:
    """Read the robot called `name`, or the YAML file at that path. Raises FcnetError."""
    path = Path(name) if str(name).endswith(".yaml") else ROBOT_FOLDER / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in ROBOT_FOLDER.glob("*.yaml")))
        raise FcnetError(f"there is no robot file {path}; known robots: {known}")
    return read_settings(path, Robot, "robot file")
