"""Where in a bag the robot's quantities are: topics, fields and the order of joints. Bags of others have their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fcnet_core.files import StrictEntries, words
from fcnet_core.robot import JOINT_NAMES

LARGEST_MAP = 64 * 2**10  # [bytes]


class TopicMapError(ValueError):
    """A topic map cannot be used; one sentence that names the file."""


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


def load_topic_map(path: str | Path) -> dict[str, TopicSource]:
    """Read a map, see config/bags/: what it does not mention is where the suite's own bags have it.

    Raises TopicMapError.
    """
    path = Path(path)
    if not path.is_file():
        raise TopicMapError(f"there is no topic map {path}; examples are in config/bags/")
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_MAP)
        entries = StrictEntries("the map", yaml.safe_load(text))
        found = {
            record: _source(record, StrictEntries(record, section)) if section is not None else own
            for record, own in OWN.items()
            for section in [entries.take_if_there(record, None)]
        }
        entries.finish()
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise TopicMapError(
            f"topic map {path} cannot be used: {reason}; compare it with config/bags/go2.yaml"
        ) from error
    return found


def _source(record: str, entries: StrictEntries) -> TopicSource:
    own = OWN[record]
    topic = entries.text("topic")
    listed, names = _joints(entries) if "names" in own.fields else ((), own.names)
    wxyz = "orientation" in own.fields and _wxyz(entries)
    known = {*own.fields, *OPTIONAL.get(record, ())} - ({"names"} if listed else set())
    given = {name: entries.take_if_there(name, None) for name in sorted(known)}
    entries.finish()
    fields = _fields(record, own, {name: path for name, path in given.items() if path is not None})
    return TopicSource(topic, fields, listed, names, wxyz)


def _fields(record: str, own: TopicSource, given: dict[str, Any]) -> dict[str, str]:
    """Paths of a message of another type stand for themselves; without any the message is of our type."""
    if odd := [name for name, path in given.items() if not isinstance(path, str) or not path]:
        raise ValueError(f"{record}.{odd[0]} must be the path of a field, not {given[odd[0]]!r}")
    if not given:
        return own.fields
    needed = [name for name in own.fields if name != "names" and name not in OPTIONAL.get(record, ())]
    if missing := [name for name in needed if name not in given]:
        raise ValueError(f"{record} gives some fields but not {', '.join(missing)}")
    return given


def _joints(entries: StrictEntries) -> tuple[tuple[str, ...], dict[str, str]]:
    """A list: the joints in the order of the values. A mapping: our names to those in the messages."""
    joints = entries.take_if_there("joints", {})
    if isinstance(joints, list):
        listed = words(f"{entries.where}.joints", joints)
        if missing := [joint for joint in JOINT_NAMES if listed.count(joint) != 1]:
            raise ValueError(f"{entries.where}.joints must name {missing[0]} once")
        return listed, {joint: joint for joint in JOINT_NAMES}
    renamed = StrictEntries(f"{entries.where}.joints", joints)
    names = {joint: str(renamed.take_if_there(joint, joint)) for joint in JOINT_NAMES}
    renamed.finish()
    return (), names


def _wxyz(entries: StrictEntries) -> bool:
    order = entries.take_if_there("quaternion", "xyzw")
    if order not in ("xyzw", "wxyz"):
        raise ValueError(f"{entries.where}.quaternion must be xyzw or wxyz, not {order!r}")
    return bool(order == "wxyz")
