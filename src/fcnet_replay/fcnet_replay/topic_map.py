"""Maps the topics and fields of a bag to the robot's quantities. Foreign bags have their own map, see config/bags/.

A source reads the quantities (N, size) or (N,) of one record from messages of one structure. Optional ones are NaN if
the messages lack them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct, structs

from fcnet_core import names
from fcnet_core.arrays import Array
from fcnet_core.errors import ReplayError
from fcnet_core.files import preset, read_settings
from fcnet_core.observation import SIZE
from fcnet_core.rotation import xyzw_from_wxyz
from fcnet_replay.bags.message_columns import Columns

Text = Annotated[str, Meta(min_length=1)]
FieldPath = Text  # such as `motor_state[].q` for the q of every motor
Quaternion = Literal["xyzw", "wxyz"]  # the order of its numbers
FILE = "topic map"
MODES = tuple(mode.value for mode in names.Mode)
AXES = "xyzw"


class TopicSource(Struct, frozen=True, forbid_unknown_fields=True):
    """topic: relative to the namespace unless it starts with a slash."""

    topic: Text

    def joint_names(self, columns: Columns) -> tuple[str, ...]:
        """Return the robot's names of the joints in the messages."""
        return ()

    def read(self, columns: Columns, joints: tuple[str, ...]) -> dict[str, Array]:
        """Return the quantities of the messages by name; `joints`: names in the order of the columns of arrays.

        Raises ReplayError if the messages are unusable.
        """
        raise NotImplementedError


class JointSource(TopicSource, frozen=True):
    """joints: the names in the order of a message's values; or, if the messages have names in the field `names`, their
    names by ours.
    """

    joints: list[str] | dict[str, str] = {}
    names: FieldPath = "name"

    def __post_init__(self) -> None:
        if repeated := sorted({joint for joint in self.joints if list(self.joints).count(joint) > 1}):
            raise ValueError(f"joints must name {repeated[0]} once")

    def joint_names(self, columns: Columns) -> tuple[str, ...]:
        if isinstance(self.joints, list):
            return tuple(self.joints)
        ours = {theirs: name for name, theirs in self.joints.items()}
        return tuple(ours.get(name, name) for name in columns.texts.get(self.names, []))

    def values(self, columns: Columns, path: FieldPath, joints: tuple[str, ...], optional: bool = False) -> Array:
        """Return the values (N, J) of a field for `joints`; NaN if they are optional and missing."""
        names = self.joint_names(columns)
        if missing := [joint for joint in joints if joint not in names]:
            raise ReplayError(f"they lack {', '.join(missing)}")
        order = [names.index(joint) for joint in joints]
        values = _numbers(columns, path)
        if optional and not values.size:
            return np.full((len(columns.rows), len(joints)), np.nan)
        count = values.shape[1]
        if count <= max(order, default=-1) or not (isinstance(self.joints, list) or count == len(names)):
            raise ReplayError(f"their field {path} has {count} values, not one for each joint")
        return values[:, order]


class JointStateSource(JointSource, frozen=True):
    """Source of joint_states."""

    position: FieldPath = "position"
    velocity: FieldPath = "velocity"
    effort: FieldPath = "effort"

    def read(self, columns: Columns, joints: tuple[str, ...]) -> dict[str, Array]:
        return {
            "stamp": _stamp(columns),
            "position": self.values(columns, self.position, joints),
            "velocity": self.values(columns, self.velocity, joints),
            "effort": self.values(columns, self.effort, joints, optional=True),
        }


class TargetSource(JointSource, frozen=True):
    """Source of joint_trajectory. Damping targets have no position, or no stiffness if messages have such a field."""

    names: FieldPath = "joint_names"
    position: FieldPath = "points[0].positions"
    stiffness: FieldPath | None = None

    def read(self, columns: Columns, joints: tuple[str, ...]) -> dict[str, Array]:
        position = self.values(columns, self.position, joints, optional=True)
        if self.stiffness is not None:
            position = np.where(self.values(columns, self.stiffness, joints) > 0, position, np.nan)
        return {"stamp": _stamp(columns), "position": position}


class ImuSource(TopicSource, frozen=True):
    """Source of imu/data."""

    orientation: FieldPath = "orientation"
    quaternion: Quaternion = "xyzw"
    angular_velocity: FieldPath = "angular_velocity"
    linear_acceleration: FieldPath = "linear_acceleration"

    def read(self, columns: Columns, joints: tuple[str, ...]) -> dict[str, Array]:
        return {
            "stamp": _stamp(columns),
            "orientation": _orientation(columns, self.orientation, self.quaternion),
            "angular_velocity": _vector(columns, self.angular_velocity, 3),
            "linear_acceleration": _vector(columns, self.linear_acceleration, 3, optional=True),
        }


class OdometrySource(TopicSource, frozen=True):
    """Source of odom."""

    position: FieldPath = "pose.pose.position"
    orientation: FieldPath = "pose.pose.orientation"
    quaternion: Quaternion = "xyzw"
    velocity: FieldPath = "twist.twist.linear"
    angular_velocity: FieldPath = "twist.twist.angular"

    def read(self, columns: Columns, joints: tuple[str, ...]) -> dict[str, Array]:
        return {
            "stamp": _stamp(columns),
            "position": _vector(columns, self.position, 3),
            "orientation": _orientation(columns, self.orientation, self.quaternion),
            "velocity": _vector(columns, self.velocity, 3),
            "angular_velocity": _vector(columns, self.angular_velocity, 3),
        }


class VelocitySource(TopicSource, frozen=True):
    """Source of cmd_vel, a Twist or TwistStamped."""

    forward: FieldPath = "linear.x"
    sideways: FieldPath = "linear.y"
    yaw_rate: FieldPath = "angular.z"

    def read(self, columns: Columns, joints: tuple[str, ...]) -> dict[str, Array]:
        return {name: _vector(columns, getattr(self, name), 1)[:, 0] for name in ("forward", "sideways", "yaw_rate")}


class PoseSource(TopicSource, frozen=True):
    """Source of cmd_pose."""

    height: FieldPath = "position.z"
    orientation: FieldPath = "orientation"
    quaternion: Quaternion = "xyzw"

    def read(self, columns: Columns, joints: tuple[str, ...]) -> dict[str, Array]:
        orientation = _orientation(columns, self.orientation, self.quaternion)
        return {"height": _vector(columns, self.height, 1)[:, 0], "orientation": orientation}


class ModeSource(TopicSource, frozen=True):
    """Source of controller/mode, as indices into MODES."""

    mode: FieldPath = "data"

    def read(self, columns: Columns, joints: tuple[str, ...]) -> dict[str, Array]:
        texts = columns.texts.get(self.mode, [])
        if len(texts) != 1 or texts[0] not in MODES:
            raise ReplayError(f"they name no known mode but {', '.join(texts)[:40]!r}")
        return {"mode": np.full(len(columns.rows), float(MODES.index(texts[0])))}


class StepSource(TopicSource, frozen=True):
    """Source of controller/policy_step, see fcnet_core/observation.py."""

    step: FieldPath = "data"

    def read(self, columns: Columns, joints: tuple[str, ...]) -> dict[str, Array]:
        return {"step": _vector(columns, self.step, SIZE)}


class TopicMap(Struct, frozen=True, forbid_unknown_fields=True, rename={"imu_data": names.IMU.name}):
    """The sources of a robot's records; the defaults are those of the suite's bags."""

    joint_states: JointStateSource = JointStateSource(names.JOINT_STATES.name)
    imu_data: ImuSource = ImuSource(names.IMU.name)
    joint_trajectory: TargetSource = TargetSource(names.JOINT_TRAJECTORY.name)
    cmd_vel: VelocitySource = VelocitySource(names.CMD_VEL.name)
    cmd_pose: PoseSource = PoseSource(names.CMD_POSE.name)
    odom: OdometrySource = OdometrySource(names.ODOM.name)
    mode: ModeSource = ModeSource(names.MODE.of(names.CONTROLLER).name)
    policy_step: StepSource = StepSource(names.POLICY_STEP.of(names.CONTROLLER).name)

    def sources(self) -> dict[str, TopicSource]:
        """Return the sources by their names in a map."""
        return {field.encode_name: getattr(self, field.name) for field in structs.fields(self)}


OWN = TopicMap()


def load_topic_map(path: str | Path) -> TopicMap:
    """Read a map by its path, or one of config/bags/ by its name. Raises FcnetError if it is unusable."""
    return read_settings(preset(path, "bags", FILE), TopicMap, FILE)


def _stamp(columns: Columns) -> Array:
    """Return the stamps (N,) [s]; NaN if the messages have none or left it at zero."""
    seconds, fraction = columns.numbers("header.stamp.sec"), columns.numbers("header.stamp.nanosec")
    if seconds is None or fraction is None:
        return np.full(len(columns.rows), np.nan)
    stamp: Array = seconds[:, 0] + 1e-9 * fraction[:, 0]
    return np.where(stamp > 0, stamp, np.nan)


def _orientation(columns: Columns, path: FieldPath, quaternion: Quaternion) -> Array:
    """Return quaternions (N, 4) x, y, z, w."""
    values = _vector(columns, path, 4)
    return xyzw_from_wxyz(values) if quaternion == "wxyz" else values


def _vector(columns: Columns, path: FieldPath, size: int, optional: bool = False) -> Array:
    """Return vectors (N, size) of an array field, or of a message with fields x, y, z, w; NaN if it is optional and
    missing.
    """
    values = _numbers(columns, path)
    if not values.size:
        values = np.hstack([_numbers(columns, f"{path}.{axis}") for axis in AXES[:size]])
    if optional and not values.size:
        return np.full((len(columns.rows), size), np.nan)
    if values.shape[1] != size:
        raise ReplayError(f"their field {path} has {values.shape[1]} numbers, expected {size}")
    return values


def _numbers(columns: Columns, path: FieldPath) -> Array:
    """Return the numbers (N, count) of a path, in which [] is every element of a sequence; (N, 0) without such a field.
    A TwistStamped has the fields of a Twist under `twist`.
    """
    before, each, after = path.partition("[]")
    if not each:
        values = columns.numbers(path)
        values = columns.numbers(f"twist.{path}") if values is None else values
        return np.empty((len(columns.rows), 0)) if values is None else values.astype(np.float64)
    found: list[npt.NDArray[Any]] = [np.empty((len(columns.rows), 0))]
    while (values := columns.numbers(f"{before}[{len(found) - 1}]{after}")) is not None:
        found.append(values)
    return np.hstack(found)
