"""Where in a bag the robot's quantities are: topics, fields and the order of joints. Bags of others have their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from fcnet_core import FcnetError
from fcnet_core.files import read_settings
from fcnet_core.robot import JOINT_NAMES

Text = Annotated[str, Meta(min_length=1)]


@dataclass(frozen=True)
class TopicSource:
    """One record's place. topic: relative to the namespace unless it begins with a slash; fields: quantity -> path,
    as `motor_state[].q` for the q of every motor; joints: names in the order of the path's values, empty where the
    messages name them; names: our joint -> the messages' name; wxyz: the order of the orientation's numbers.
    """

    topic: str
    fields: dict[str, str]
    joints: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=lambda: {joint: joint for joint in JOINT_NAMES})
    wxyz: bool = False


OWN: dict[str, TopicSource] = {
    "joint_states": TopicSource(
        "joint_states", {"names": "name", "position": "position", "velocity": "velocity", "effort": "effort"}
    ),
    "imu/data": TopicSource(
        "imu/data",
        {
            "orientation": "orientation",
            "angular_velocity": "angular_velocity",
            "linear_acceleration": "linear_acceleration",
        },
    ),
    "joint_trajectory": TopicSource("joint_trajectory", {"names": "joint_names", "position": "points[0].positions"}),
    "cmd_vel": TopicSource("cmd_vel", {"forward": "linear.x", "sideways": "linear.y", "yaw_rate": "angular.z"}),
    "cmd_pose": TopicSource("cmd_pose", {"height": "position.z", "orientation": "orientation"}),
    "odom": TopicSource(
        "odom",
        {
            "orientation": "pose.pose.orientation",
            "position": "pose.pose.position",
            "velocity": "twist.twist.linear",
            "angular_velocity": "twist.twist.angular",
        },
    ),
    "mode": TopicSource("controller/mode", {"mode": "data"}),
    "policy_step": TopicSource("controller/policy_step", {"step": "data"}),
}
OPTIONAL = {"joint_states": ("effort",), "imu/data": ("linear_acceleration",), "joint_trajectory": ("stiffness",)}


class _Section(Struct, frozen=True, forbid_unknown_fields=True):
    """A record's entries in a map. joints: a list names those of the values in order, a mapping gives our names those
    of the messages. The other entries are paths of fields.
    """

    topic: Text
    joints: list[str] | dict[str, str] | None = None
    quaternion: Literal["xyzw", "wxyz"] | None = None
    names: Text | None = None
    position: Text | None = None
    velocity: Text | None = None
    effort: Text | None = None
    stiffness: Text | None = None
    orientation: Text | None = None
    angular_velocity: Text | None = None
    linear_acceleration: Text | None = None
    forward: Text | None = None
    sideways: Text | None = None
    yaw_rate: Text | None = None
    height: Text | None = None
    mode: Text | None = None
    step: Text | None = None


class _Map(Struct, frozen=True, forbid_unknown_fields=True, rename={"imu_data": "imu/data"}):
    """The records of OWN."""

    joint_states: _Section | None = None
    imu_data: _Section | None = None
    joint_trajectory: _Section | None = None
    cmd_vel: _Section | None = None
    cmd_pose: _Section | None = None
    odom: _Section | None = None
    mode: _Section | None = None
    policy_step: _Section | None = None


def load_topic_map(path: str | Path) -> dict[str, TopicSource]:
    """Read a map, see config/bags/: what it does not mention is where the suite's own bags have it.

    Raises FcnetError.
    """
    found = read_settings(path, _Map, "topic map")
    sections = {record: getattr(found, record.replace("/", "_")) for record in OWN}
    try:
        return OWN | {record: _source(record, section) for record, section in sections.items() if section}
    except ValueError as error:
        raise FcnetError(f"topic map {path} cannot be used: {error}; compare it with config/bags/") from error


def _source(record: str, section: _Section) -> TopicSource:
    own, optional = OWN[record], OPTIONAL.get(record, ())
    given = {name: value for name, value in structs.asdict(section).items() if value is not None}
    joints, quaternion = given.pop("joints", {}), given.pop("quaternion", "xyzw")
    topic = given.pop("topic")
    listed, names = (tuple(joints), {}) if isinstance(joints, list) else ((), joints)
    known = {*own.fields, *optional} - ({"names"} if listed else set())
    unknown = [name for name in given if name not in known]
    unknown += ["joints"] if joints and "names" not in own.fields else []
    unknown += ["quaternion"] if quaternion == "wxyz" and "orientation" not in own.fields else []
    if unknown:
        raise ValueError(f"{record} has no entry {unknown[0]}")
    if odd := [joint for joint in names if joint not in JOINT_NAMES]:
        raise ValueError(f"{record}.joints names {odd[0]}, which is no joint of ours")
    if isinstance(joints, list) and (missing := [joint for joint in JOINT_NAMES if listed.count(joint) != 1]):
        raise ValueError(f"{record}.joints must name {missing[0]} once")
    if given and (missing := [name for name in own.fields if name not in (*given, *optional, "names")]):
        raise ValueError(f"{record} gives some fields but not {', '.join(missing)}")
    names = {joint: names.get(joint, joint) for joint in JOINT_NAMES}
    return TopicSource(topic, given or own.fields, listed, names, quaternion == "wxyz")
