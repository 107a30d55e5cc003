"""All facts of a robot, read from config/robots/<robot>.yaml."""

import math
import os
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct, structs

from fcnet_core.arrays import Array, Rows
from fcnet_core.errors import FcnetError
from fcnet_core.files import CONFIG, Count, NotNegative, Number, Positive, expanded, read_settings
from fcnet_core.names import SETPOINT_UNITS

ROBOT_FOLDER = CONFIG / "robots"
OTHER_ROBOTS = "FCNET_ROBOTS"  # environment variable: another folder of robot files
LEGS = ("FR", "FL", "RR", "RL")  # of the section `legs`, in the order of every array with an axis of legs
LEG_JOINTS = ("hip", "thigh", "calf")  # of a leg, from the trunk outwards
SETPOINT_FIELDS = tuple(SETPOINT_UNITS)
Vector = tuple[Number, Number, Number]
PerJoint = Number | tuple[Number, ...] | dict[str, Number]  # see per_joint
Gain = Positive | dict[str, Positive]
UNWATCHED = math.inf  # default of a threshold


class Motor(Struct, frozen=True, forbid_unknown_fields=True):
    """A motor with its gear: torque [Nm], velocity [rad/s] and passive dynamics at the joint.

    It gives its full torque up to full_torque_speed [rad/s], then linearly less, down to zero at `velocity`. Without
    full_torque_speed the torque is available at every speed.
    """

    torque: Positive
    velocity: Positive
    full_torque_speed: Positive | None = None
    armature: NotNegative = 0.0  # rotor inertia [kg m^2]
    damping: NotNegative = 0.0  # [Nms/rad]
    friction: NotNegative = 0.0  # [Nm]

    def __post_init__(self) -> None:
        if self.full_torque_speed is not None and not self.full_torque_speed < self.velocity:
            raise ValueError("full_torque_speed must be below velocity")


class Joint(Struct, frozen=True, forbid_unknown_fields=True):
    """A joint: the name of its motor, its limits and its position in a standing and in a lying robot [rad]."""

    motor: str
    limits: tuple[Number, Number]
    stand: Number
    lie: Number | None = None


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


class Link(Body, frozen=True, forbid_unknown_fields=True):
    """A further link, such as a tail: a box of half sizes `size` [m] about its centre of mass, and the hinge that it
    turns by, about `axis`, at `place` [m] in the frame of its parent: trunk, or another further link.
    """

    joint: str
    parent: str
    place: Vector
    axis: Vector
    size: tuple[Positive, Positive, Positive]


class Primitives(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a robot with four legs, made of simple shapes: for robots without a body file.

    bodies: trunk, and hip, thigh and calf of the left front leg; the other legs are mirror images. links: of the joints
    that are no leg's, in an order in which parents come before their children.
    """

    geometry: Geometry
    bodies: dict[str, Body]
    contact: Contact
    links: dict[str, Link] = {}

    def __post_init__(self) -> None:
        if odd := sorted(set(self.bodies) ^ {"trunk", *LEG_JOINTS}):
            raise ValueError(f"bodies must be given for exactly trunk, {', '.join(LEG_JOINTS)}; see {odd[0]}")
        known = ["trunk"]
        for name, link in self.links.items():
            if link.parent not in known:
                raise ValueError(f"the parent of link {name} is {link.parent}, expected one of {', '.join(known)}")
            known.append(name)


class BodyFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A URDF or MuJoCo file with bodies and inertias; a relative path starts at the robot file.

    root: name of the free body; feet: foot -> body of the file; imu: body with the IMU, by default the root.
    """

    file: str
    root: str
    feet: dict[str, str] = {}
    imu: str | None = None


class Gains(Struct, frozen=True, forbid_unknown_fields=True):
    """Joint stiffness kp [Nm/rad] and damping kd [Nms/rad]; damping: kd without a command [Nms/rad]; see per_joint."""

    kp: Gain
    kd: Gain
    damping: Gain


class Gait(Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the gait clock, see command.GaitClock."""

    frequency: Positive
    frequency_gain: NotNegative
    speed_knee: NotNegative
    linger: NotNegative
    threshold: NotNegative


NO_GAIT = Gait(1.0, 0.0, 0.0, 0.0, 1e6)  # its clock never leaves rest


class CommandRange(Struct, frozen=True, array_like=True):
    """Range of a setpoint and its maximum change per second; in a file a list of three or, if it jumps, of two."""

    lowest: Number
    highest: Number
    rate: Number = 1e6

    def clip(self, value: float) -> float:
        """Clip a value to the range."""
        return min(max(value, self.lowest), self.highest)


FIXED = CommandRange(0.0, 0.0, 1.0)  # of a setpoint that a robot does not have: it stays zero


class Safety(Struct, frozen=True, forbid_unknown_fields=True):
    """Thresholds of controller and bridge; the robot files give the reasons for the values.

    A threshold that a file does not give is not watched. The driver of a real robot needs all of them.

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
    max_target_jump: Positive = UNWATCHED
    mean_target_rate: Positive = UNWATCHED
    max_target_path: Positive = UNWATCHED
    max_start_error: Positive = UNWATCHED
    max_fall_rate: Positive = UNWATCHED
    fall_rate_time: Positive = UNWATCHED
    position_margin: Positive = UNWATCHED
    max_velocity_mismatch: Positive = UNWATCHED
    max_velocity: Positive = UNWATCHED
    velocity_time: Positive = UNWATCHED
    max_torque: Positive = UNWATCHED
    torque_time: Positive = UNWATCHED
    max_power: Positive = UNWATCHED
    power_time: Positive = UNWATCHED
    servo_lost_time: Positive = UNWATCHED
    temperature_warning: Positive = UNWATCHED
    max_temperature: Positive = UNWATCHED
    command_timeout: Positive = UNWATCHED
    state_timeout: Positive = UNWATCHED
    max_cycle_gap: Positive = UNWATCHED
    max_loop_lateness: Positive = UNWATCHED
    remote_timeout: Positive = UNWATCHED
    frozen_time: Positive = UNWATCHED
    packet_loss_warning: Positive = UNWATCHED
    max_packet_loss: Positive = UNWATCHED
    max_kp: Positive = UNWATCHED
    max_kd: Positive = UNWATCHED
    min_damping_ratio: Positive = 0.0
    soft_start: Positive = 0.0

    def __post_init__(self) -> None:
        pairs = ((self.temperature_warning, self.max_temperature), (self.packet_loss_warning, self.max_packet_loss))
        if any(warning >= limit < UNWATCHED for warning, limit in pairs):
            raise ValueError("safety: warnings of temperature and packet loss must be below their limits")
        if self.max_cycle_gap >= min(self.command_timeout, self.state_timeout) < UNWATCHED:
            raise ValueError("safety.max_cycle_gap must be below command_timeout and state_timeout")

    @property
    def unwatched(self) -> list[str]:
        """Names of the thresholds that are not given."""
        return [name for name in self.__struct_fields__ if getattr(self, name) in (UNWATCHED, 0.0)]


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


def _of_joints(read: Callable[[Joint, Motor], float]) -> cached_property[Array]:
    """Return a property of a robot: a number (N,) of each joint and its motor."""
    return cached_property(lambda robot: np.array([read(at, robot.motors[at.motor]) for at in robot.joints.values()]))


def _of_gains(field: str) -> cached_property[Array]:
    return cached_property(lambda at: per_joint(getattr(at.gains, field), at.joint_names, f"gains.{field}"))


class Robot(Struct, frozen=True, forbid_unknown_fields=True, dict=True, kw_only=True):
    """One robot as in its file. The order of `joints` is that of every vector (N,) of a robot with N joints.

    nominal_height: of the trunk's centre above the ground while walking [m]. Its body is made of `primitives` or read
    from the file of `model`. Optional, for robots that have them: legs (the joints hip, thigh and calf of FR, FL, RR,
    RL, from the trunk outwards), gait, recovery, commands (ranges of setpoints; FIXED if the file gives none).
    """

    name: str
    motors: dict[str, Motor]
    joints: dict[str, Joint]
    gains: Gains
    nominal_height: Positive
    safety: Safety
    legs: dict[str, tuple[str, str, str]] = {}
    primitives: Primitives | None = None
    model: BodyFile | None = None
    gait: Gait = NO_GAIT
    commands: dict[str, CommandRange] = {}
    recovery: Recovery | None = None

    def __post_init__(self) -> None:
        self._check_joints()
        if self.legs and set(self.legs) != set(LEGS):
            raise ValueError(f"legs must be {', '.join(LEGS)}, each with the names of three of the robot's joints")
        moved = [joint for leg in self.legs.values() for joint in leg]
        if unknown := [joint for joint in moved if joint not in self.joints]:
            raise ValueError(f"legs names {unknown[0]}, which is not in joints")
        if (self.primitives is None) == (self.model is None):
            raise ValueError("give the body either as primitives or as model")
        if self.primitives and not self.legs:
            raise ValueError("a body of primitives needs legs; give the body of another robot as model")
        if self.primitives:
            moved += [link.joint for link in self.primitives.links.values()]
            if odd := sorted(set(moved) ^ set(self.joints)) or sorted({j for j in moved if moved.count(j) > 1}):
                raise ValueError(f"the joint {odd[0]} must be in joints, and in either legs or primitives.links")
        if odd := sorted(set(self.commands) - set(SETPOINT_FIELDS)):
            raise ValueError(f"commands has the unknown setpoint {odd[0]}; choose from {', '.join(SETPOINT_FIELDS)}")
        if self.recovery and not (self.legs and self.lie_pose is not None and self.safety.fall_rate_time < UNWATCHED):
            raise ValueError("recovery needs legs, a lying pose and safety.fall_rate_time")
        if self.recovery and not self.recovery.max_tilt <= self.recovery.fold_tilt <= self.safety.max_tilt:
            raise ValueError("recovery.max_tilt must be at most fold_tilt, and fold_tilt at most safety.max_tilt")
        if (self.kp > self.safety.max_kp).any() or (np.maximum(self.kd, self.damping) > self.safety.max_kd).any():
            raise ValueError("the gains are above safety.max_kp or safety.max_kd")
        structs.force_setattr(self, "commands", {field: self.commands.get(field, FIXED) for field in SETPOINT_FIELDS})
        for field, limits in self.commands.items():
            if not (limits.lowest <= 0 <= limits.highest and limits.rate > 0):
                raise ValueError(f"the range of command {field} must contain 0 and its rate must be positive")

    def _check_joints(self) -> None:
        if not self.joints:
            raise ValueError("joints is empty; name the robot's joints in the order of its vectors")
        for name, joint in self.joints.items():
            if joint.motor not in self.motors:
                raise ValueError(f"{name} has the unknown motor {joint.motor}; choose from {', '.join(self.motors)}")
            low, high = joint.limits
            if not low < high:
                raise ValueError(f"the lower limit of {name} is not below its upper limit")
            if not all(low <= pose <= high for pose in (joint.stand, joint.lie) if pose is not None):
                raise ValueError(f"a pose of {name} lies outside its limits")
        if len({joint.lie is None for joint in self.joints.values()}) > 1:
            raise ValueError("lie must be given for all joints or for none")

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints in the order of every vector."""
        return tuple(self.joints)

    @cached_property
    def leg_rows(self) -> Rows:
        """Indices (4, 3) of hip, thigh and calf of the legs FR, FL, RR, RL. Raises FcnetError without legs."""
        if not self.legs:
            raise FcnetError(f"the robot {self.name} has no legs of hip, thigh and calf; its file has no legs")
        return np.array([[self.joint_names.index(joint) for joint in self.legs[leg]] for leg in LEGS])

    @cached_property
    def lie_pose(self) -> Array | None:
        """Joint positions (N,) [rad] of a lying robot; None if it has no such pose."""
        poses = [joint.lie for joint in self.joints.values()]
        return None if None in poses else np.array(poses, dtype=np.float64)

    @property
    def rest_pose(self) -> Array:
        """Joint positions (N,) [rad] of the robot at rest: its lying pose or, without one, its standing pose."""
        return self.stand_pose if self.lie_pose is None else self.lie_pose

    stand_pose = _of_joints(lambda joint, _: joint.stand)  #: joint positions (N,) [rad] of a standing robot
    lower = _of_joints(lambda joint, _: joint.limits[0])  #: lowest joint positions (N,) [rad]
    upper = _of_joints(lambda joint, _: joint.limits[1])  #: highest joint positions (N,) [rad]
    torque_limit = _of_joints(lambda _, motor: motor.torque)  #: maximum joint torques (N,) [Nm]
    velocity_limit = _of_joints(lambda _, motor: motor.velocity)  #: maximum joint velocities (N,) [rad/s]
    full_torque_speed = _of_joints(lambda _, motor: motor.full_torque_speed or (1 - 1e-6) * motor.velocity)
    """Joint velocities (N,) [rad/s] up to which the motors give their maximum torque."""
    armature = _of_joints(lambda _, motor: motor.armature)  #: rotor inertias (N,) [kg m^2] at the joints
    kp = _of_gains("kp")  #: stiffness (N,) [Nm/rad] of the joints
    kd = _of_gains("kd")  #: damping (N,) [Nms/rad] of the joints
    damping = _of_gains("damping")  #: damping (N,) [Nms/rad] of the joints without a command

    def torque_bounds(self, velocity: Array) -> tuple[Array, Array]:
        """Return lowest and highest torques (..., N) [Nm] of the motors at joint velocities (..., N) [rad/s]."""
        limit, fastest = self.torque_limit, self.velocity_limit
        slope = limit / (fastest - self.full_torque_speed)
        lowest, highest = slope * (-fastest - velocity), slope * (fastest - velocity)
        return np.clip(lowest, -limit, limit), np.clip(highest, -limit, limit)

    @property
    def body(self) -> Primitives:
        """The simple shapes of which its body is made. Raises FcnetError if it is read from a file."""
        if self.primitives is None:
            raise FcnetError(f"this needs a body of primitives, but that of {self.name} is read from a file")
        return self.primitives

    @property
    def geometry(self) -> Geometry:
        """Lengths of trunk and legs. Raises FcnetError as `body`."""
        return self.body.geometry

    @property
    def mass(self) -> float:
        """Mass of the whole robot [kg]. Raises FcnetError as `body`."""
        bodies, links = self.body.bodies, self.body.links.values()
        legs = len(self.legs) * sum(bodies[name].mass for name in LEG_JOINTS)
        return bodies["trunk"].mass + legs + sum(link.mass for link in links)


def per_joint(value: PerJoint, joints: Sequence[str], what: str) -> Array:
    """Return one number (N,) for each of the joints. value: a number for all, a list in their order, or a mapping of
    name patterns, such as "*_knee", of which every joint matches exactly one. Raises ValueError that names `what`.
    """
    if not isinstance(value, dict):
        numbers = np.asarray(value, dtype=np.float64)
        if numbers.ndim and len(numbers) != len(joints):
            raise ValueError(f"{what} has {len(numbers)} numbers, expected one or {len(joints)}")
        return np.broadcast_to(numbers, len(joints)).copy()
    found = {joint: [number for pattern, number in value.items() if fnmatchcase(joint, pattern)] for joint in joints}
    if odd := next((joint for joint, numbers in found.items() if len(numbers) != 1), None):
        raise ValueError(f"{odd} matches {len(found[odd])} patterns of {what}, expected exactly one")
    return np.array([numbers[0] for numbers in found.values()])


def robot_files() -> dict[str, Path]:
    """Return the robot files by the names of their robots: those of config/robots and of the folder FCNET_ROBOTS.

    Raises FcnetError if that is no folder that can be read.
    """
    files = sorted(ROBOT_FOLDER.glob("*.yaml"))
    if other := expanded(os.environ.get(OTHER_ROBOTS, "")):
        try:
            files += sorted(path for path in Path(other).iterdir() if path.suffix == ".yaml")
        except OSError as error:
            wrong = f"the environment variable {OTHER_ROBOTS} names {other}: {error.strerror}"
            raise FcnetError(f"{wrong}; set it to a folder of robot files, or unset it") from error
    return {path.stem: path for path in files}


def load_robot(name: str | Path) -> Robot:
    """Read the robot called `name` in robot_files, or the YAML file at that path. Raises FcnetError.

    >>> robot = load_robot("aliengo")
    >>> robot.joint_names[0], robot.stand_pose.shape
    ('FR_hip_joint', (12,))
    """
    known = robot_files()
    given = expanded(str(name))
    path = Path(given) if given.endswith(".yaml") else known.get(given, ROBOT_FOLDER / f"{given}.yaml")
    if not path.is_file():
        raise FcnetError(f"there is no robot file {path}; known robots: {', '.join(sorted(known))}")
    robot = read_settings(path, Robot, "robot file")
    if robot.model is None:
        return robot
    file = str(path.parent / expanded(robot.model.file))
    return structs.replace(robot, model=structs.replace(robot.model, file=file))
