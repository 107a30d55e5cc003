"""A robot's facts, read from config/robots/<robot>.yaml and nowhere else, and its leg geometry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

# A robot's facts, read from config/robots/<robot>.yaml and nowhere else.

Array = npt.NDArray[np.float64]

ROBOT_FOLDER = Path(__file__).parent / "config" / "robots"
LEGS = ("FR", "FL", "RR", "RL")
LEG_JOINTS = ("hip", "thigh", "calf")
JOINT_NAMES = tuple(f"{leg}_{joint}_joint" for leg in LEGS for joint in LEG_JOINTS)
SETPOINT_FIELDS = ("vx", "vy", "yaw_rate", "height", "roll", "pitch", "width", "clearance", "frequency")


class RobotFileError(ValueError):
    """A robot file is missing or says something that cannot be."""


@dataclass(frozen=True)
class Joint:
    """Facts of one of the three joints of a leg: limits [rad, Nm, rad/s] and passive dynamics."""

    right: tuple[float, float]
    left: tuple[float, float]
    torque: float
    velocity: float
    armature: float
    damping: float
    friction: float


@dataclass(frozen=True)
class Geometry:
    """Lengths of trunk and legs [m]; `trunk` holds half sizes."""

    hip_x: float
    hip_y: float
    abduction: float
    thigh: float
    calf: float
    foot_radius: float
    trunk: tuple[float, float, float]


@dataclass(frozen=True)
class Body:
    """Mass [kg], centre of mass [m] and diagonal inertia [kg m^2] of one link."""

    mass: float
    com: tuple[float, float, float]
    inertia: tuple[float, float, float]


@dataclass(frozen=True)
class Gains:
    """Joint stiffness [Nm/rad], damping [Nms/rad], and the damping that holds a robot without a command."""

    kp: float
    kd: float
    damping: float


@dataclass(frozen=True)
class Gait:
    """Parameters of the gait clock, see gait_clock.py."""

    frequency: float
    frequency_gain: float
    speed_knee: float
    linger: float
    threshold: float


@dataclass(frozen=True)
class CommandRange:
    """Lowest and highest value of one setpoint field and its largest change per second."""

    lowest: float
    highest: float
    rate: float


@dataclass(frozen=True)
class Safety:
    """Thresholds at which controller and bridge give up; the robot files say why they are what they are.

    max_tilt [rad]: trunk against gravity; max_joint_error [rad] for joint_error_time [s]: target against measurement;
    max_target_rate [rad/s]: slew of targets; max_target_jump [rad]: of a target, on top of its slew; max_start_error
    [rad]: first target against measurement; position_margin [rad]: of measured positions beyond the joint limits;
    max_velocity for velocity_time [s] and max_torque for torque_time [s]: as shares of the joints' limits; max_power
    [W] for power_time [s]; servo_lost_time [s] of a motor out of its servo mode; temperature_warning and
    max_temperature [deg C] of the motors; command_timeout, state_timeout [s]: ages; frozen_time [s] without any change
    of a sensor; packet_loss_warning, max_packet_loss: shares; max_kp [Nm/rad], max_kd [Nms/rad]: largest gains;
    soft_start [s]: until joints that begin to follow have their whole stiffness.
    """

    max_tilt: float
    max_joint_error: float
    joint_error_time: float
    max_target_rate: float
    max_target_jump: float
    max_start_error: float
    position_margin: float
    max_velocity: float
    velocity_time: float
    max_torque: float
    torque_time: float
    max_power: float
    power_time: float
    servo_lost_time: float
    temperature_warning: float
    max_temperature: float
    command_timeout: float
    state_timeout: float
    frozen_time: float
    packet_loss_warning: float
    max_packet_loss: float
    max_kp: float
    max_kd: float
    soft_start: float


@dataclass(frozen=True)
class Robot:
    """One robot. Vectors of 12 follow JOINT_NAMES (FR, FL, RR, RL; hip, thigh, calf)."""

    name: str
    joints: dict[str, Joint]
    stand_pose: Array
    lie_pose: Array
    gains: Gains
    geometry: Geometry
    nominal_height: float
    bodies: dict[str, Body]
    gait: Gait
    commands: dict[str, CommandRange]
    safety: Safety

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
        """Largest joint torques (12,) [Nm]."""
        return np.array([self.joints[joint].torque for _ in LEGS for joint in LEG_JOINTS])

    @property
    def velocity_limit(self) -> Array:
        """Largest joint velocities (12,) [rad/s]."""
        return np.array([self.joints[joint].velocity for _ in LEGS for joint in LEG_JOINTS])

    @property
    def mass(self) -> float:
        """Mass of the whole robot [kg]."""
        return self.bodies["trunk"].mass + 4 * sum(self.bodies[name].mass for name in LEG_JOINTS)

    def _limits(self, end: int) -> Array:
        sides = [("right" if leg.endswith("R") else "left") for leg in LEGS]
        return np.array([getattr(self.joints[joint], side)[end] for side in sides for joint in LEG_JOINTS])


def load_robot(name: str | Path) -> Robot:
    """Read the robot called `name` (or the YAML file at that path).

    Raises RobotFileError with one sentence that says what is wrong and where.
    """
    path = Path(name) if str(name).endswith(".yaml") else ROBOT_FOLDER / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in ROBOT_FOLDER.glob("*.yaml")))
        raise RobotFileError(f"there is no robot file {path}; known robots: {known}")
    try:
        return _parse(yaml.load(path.read_text(), yaml.CSafeLoader))  # in an eighth of SafeLoader's 20 ms
    except (KeyError, TypeError, ValueError, AttributeError, yaml.YAMLError) as error:
        raise RobotFileError(
            f"robot file {path} cannot be used: {_reason(error)}; compare it with aliengo.yaml"
        ) from error


def _parse(facts: dict[str, Any]) -> Robot:
    facts = dict(facts)
    if tuple(facts.pop("legs")) != LEGS:
        raise ValueError(f"legs must be {list(LEGS)}")
    poses = facts.pop("poses")
    commands = {field: CommandRange(*facts["commands"].pop(field)) for field in SETPOINT_FIELDS}
    if unknown := facts.pop("commands"):
        raise ValueError(f"unknown command fields {sorted(unknown)}")
    robot = Robot(
        name=facts.pop("name"),
        joints={name: _joint(**facts["joints"].pop(name)) for name in LEG_JOINTS},
        stand_pose=_pose(poses.pop("stand")),
        lie_pose=_pose(poses.pop("lie")),
        gains=Gains(**facts.pop("gains")),
        geometry=_geometry(**facts.pop("geometry")),
        nominal_height=float(facts.pop("nominal_height")),
        bodies={name: _body(**facts["bodies"].pop(name)) for name in ("trunk", *LEG_JOINTS)},
        gait=Gait(**facts.pop("gait")),
        commands=commands,
        safety=_safety(**facts.pop("safety")),
    )
    if unknown := [key for key, value in facts.items() if value or key not in ("joints", "bodies")] + list(poses):
        raise ValueError(f"unknown entries {sorted(unknown)}")
    _check(robot)
    return robot


def _pose(leg: list[float]) -> Array:
    hip, thigh, calf = leg
    return np.tile(np.array([hip, thigh, calf], dtype=np.float64), len(LEGS))


def _joint(right: list[float], left: list[float], **rest: float) -> Joint:
    return Joint(right=(right[0], right[1]), left=(left[0], left[1]), **rest)


def _geometry(trunk: list[float], **rest: float) -> Geometry:
    return Geometry(trunk=(trunk[0], trunk[1], trunk[2]), **rest)


def _body(mass: float, com: list[float], inertia: list[float]) -> Body:
    return Body(mass, (com[0], com[1], com[2]), (inertia[0], inertia[1], inertia[2]))


def _safety(**thresholds: Any) -> Safety:
    for name, value in thresholds.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise ValueError(f"safety.{name} must be a positive number, not {value!r}")
    return Safety(**thresholds)


def _check(robot: Robot) -> None:
    if not (robot.lower < robot.upper).all():
        raise ValueError("a joint's lower limit is not below its upper limit")
    for pose in (robot.stand_pose, robot.lie_pose):
        if not ((robot.lower <= pose) & (pose <= robot.upper)).all():
            raise ValueError("a pose lies outside the joint limits")
    gains, safety = robot.gains, robot.safety
    if gains.kp > safety.max_kp or max(gains.kd, gains.damping) > safety.max_kd:
        raise ValueError("the gains are above safety.max_kp or safety.max_kd")
    if safety.temperature_warning >= safety.max_temperature or safety.packet_loss_warning >= safety.max_packet_loss:
        raise ValueError("safety must warn of temperature and packet loss below their limits")
    for field, limits in robot.commands.items():
        if not (limits.lowest <= 0 <= limits.highest and limits.rate > 0):
            raise ValueError(f"the range of command {field} must contain 0 and its rate must be positive")


def _reason(error: Exception) -> str:
    return f"entry {error} is missing" if isinstance(error, KeyError) else str(error)


# Where the legs of a robot are: the four points between which a leg is drawn.

FRONT = np.array([1.0 if leg.startswith("F") else -1.0 for leg in LEGS])
LEFT = np.array([1.0 if leg.endswith("L") else -1.0 for leg in LEGS])


def leg_points(robot: Robot, joints: npt.ArrayLike) -> Array:
    """Hip axis, thigh axis, knee and foot centre (4 legs, 4 points, 3) [m] in the trunk's frame; legs in LEGS order.

    joints (12,) [rad] in JOINT_NAMES order.
    """
    size = robot.geometry
    hip, thigh, calf = np.asarray(joints, dtype=np.float64).reshape(len(LEGS), len(LEG_JOINTS)).T
    origin = np.stack([FRONT * size.hip_x, LEFT * size.hip_y, np.zeros(len(LEGS))], axis=-1)
    side = LEFT * size.abduction
    knee_x, knee_down = -size.thigh * np.sin(thigh), -size.thigh * np.cos(thigh)
    foot_x, foot_down = knee_x - size.calf * np.sin(thigh + calf), knee_down - size.calf * np.cos(thigh + calf)
    points = [(0.0 * hip, 0.0 * side, 0.0 * hip), (0.0 * hip, side, 0.0 * hip)]
    points += [(knee_x, side, knee_down), (foot_x, side, foot_down)]
    sine, cosine = np.sin(hip), np.cos(hip)
    turned = [np.stack([x, y * cosine - z * sine, y * sine + z * cosine], axis=-1) for x, y, z in points]
    return origin[:, None] + np.stack(turned, axis=1)


def standing_height(robot: Robot, points: Array, rotation: Array) -> float:
    """Height [m] of the trunk's centre that lets the lowest foot (or the trunk) touch the ground.

    points (4, 4, 3): of `leg_points`; rotation (3, 3): from trunk to world.
    """
    feet = (points[:, 3] @ rotation.T)[:, 2] - robot.geometry.foot_radius
    lowest_corner = -np.abs(rotation[2]) @ np.array(robot.geometry.trunk)
    return -float(min(feet.min(), lowest_corner))
