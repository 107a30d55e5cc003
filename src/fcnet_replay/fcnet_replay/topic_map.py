"""Maps the topics and fields of a bag to the robot's quantities. Foreign bags have their own map, see config/bags/."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct, defstruct, structs

from fcnet_core import names
from fcnet_core.arrays import Array
from fcnet_core.errors import ReplayError
from fcnet_core.files import preset, read_settings
from fcnet_core.observation import SCALARS, SIZE
from fcnet_core.rotation import NO_ESTIMATE, is_orientation, xyzw_from_wxyz
from fcnet_replay.bags.message_columns import Columns

Text = Annotated[str, Meta(min_length=1)]
FILE = "topic map"
MODES = tuple(mode.value for mode in names.Mode)


class Quantity(NamedTuple):
    """A quantity of a record: its kind and the default path of its field; NaN if it is optional and missing.

    kind: the number of values, or "joints" (one value for each), "quaternion", "mode" (a text as its index in MODES),
    "step" (the numbers of a PolicyStep).
    A path such as `motor_state[].q` is the q of every motor.
    """

    kind: int | Literal["joints", "quaternion", "mode", "step"]
    path: str
    optional: bool = False


# The quantities of each record of a robot; the first four have a stamp. Targets without stiffness ask for damping.
QUANTITIES: dict[str, dict[str, Quantity]] = {
    names.JOINT_STATES.name: {
        "position": Quantity("joints", "position"),
        "velocity": Quantity("joints", "velocity"),
        "effort": Quantity("joints", "effort", optional=True),
    },
    names.IMU.name: {
        "orientation": Quantity("quaternion", "orientation"),
        "angular_velocity": Quantity(3, "angular_velocity"),
        "linear_acceleration": Quantity(3, "linear_acceleration", optional=True),
    },
    names.JOINT_TRAJECTORY.name: {
        "position": Quantity("joints", "points[0].positions", optional=True),
        "stiffness": Quantity("joints", "", optional=True),
    },
    names.ODOM.name: {
        "position": Quantity(3, "pose.pose.position"),
        "orientation": Quantity("quaternion", "pose.pose.orientation"),
        "velocity": Quantity(3, "twist.twist.linear"),
        "angular_velocity": Quantity(3, "twist.twist.angular"),
    },
    names.CMD_VEL.name: {
        "forward": Quantity(1, "linear.x"),
        "sideways": Quantity(1, "linear.y"),
        "yaw_rate": Quantity(1, "angular.z"),
    },
    names.CMD_POSE.name: {"height": Quantity(1, "position.z"), "orientation": Quantity("quaternion", "orientation")},
    "mode": {"mode": Quantity("mode", "data")},
    "policy_step": {"step": Quantity("step", "data")},
}
STAMPED = tuple(QUANTITIES)[:4]


class TopicSource(Struct, frozen=True, forbid_unknown_fields=True):
    """Where messages hold the quantities of one record; SOURCES adds the path of each.

    topic: relative to the namespace unless it starts with a slash; quaternion: order of its numbers; joints: the names
    in the order of a message's values; or, if the messages have names in the field `names`, their names by ours.
    """

    record: ClassVar[str]
    topic: Text
    quaternion: Literal["xyzw", "wxyz"] = "xyzw"
    joints: list[str] | dict[str, str] = {}
    names: Text = "name"

    def __post_init__(self) -> None:
        if repeated := sorted({joint for joint in self.joints if list(self.joints).count(joint) > 1}):
            raise ValueError(f"joints must name {repeated[0]} once")

    def joint_names(self, columns: Columns) -> tuple[str, ...]:
        """Return the robot's names of the joints in the messages; empty for a record without joints."""
        if isinstance(self.joints, list):
            return tuple(self.joints)
        ours = {theirs: name for name, theirs in self.joints.items()}
        return tuple(ours.get(name, name) for name in columns.layout.texts.get(self.names, []))

    def read(self, columns: Columns, joints: tuple[str, ...]) -> dict[str, Array]:
        """Return the quantities (N, size) or (N,) of the messages by name; `joints`: names of the columns of arrays.

        Measurements that do not exist are NaN: orientations that are no unit quaternions, and quantities of an Imu with
        covariance -1. Raises ReplayError if the messages are unusable.
        """
        found: dict[str, Array] = {}
        if self.record in STAMPED:  # NaN if the messages have no stamp or left it at zero
            seconds = _numbers(columns, "header.stamp.sec"), 1e-9 * _numbers(columns, "header.stamp.nanosec")
            stamp = np.hstack(seconds).sum(axis=1)
            found["stamp"] = np.where(stamp > 0, stamp, np.nan)
        for name, quantity in QUANTITIES[self.record].items():
            path = getattr(self, name)
            if quantity.kind == "joints":
                found |= {name: self._of_joints(columns, path, joints, quantity.optional)} if path else {}
            elif quantity.kind == "mode":
                texts = columns.layout.texts.get(path, [])
                if len(texts) != 1 or texts[0] not in MODES:
                    raise ReplayError(f"they name no known mode but {', '.join(texts)[:40]!r}")
                found[name] = np.full(len(columns.rows), float(MODES.index(texts[0])))
            elif quantity.kind == "step":
                found[name] = _step(_numbers(columns, path))
            elif quantity.kind == "quaternion":
                values = _vector(columns, path, 4)
                found[name] = xyzw_from_wxyz(values) if self.quaternion == "wxyz" else values
            else:
                values = _vector(columns, path, quantity.kind, quantity.optional)
                found[name] = values[:, 0] if quantity.kind == 1 else values
            if quantity.kind == "quaternion" and self.record in STAMPED:
                found[name] = np.where(is_orientation(found[name])[:, None], found[name], np.nan)
            covariance = columns.numbers(f"{path}_covariance")
            if covariance is not None and covariance.size:
                found[name] = np.where(covariance[:, :1] == NO_ESTIMATE, np.nan, found[name])
        if (stiffness := found.pop("stiffness", None)) is not None:
            found["position"] = np.where(stiffness > 0, found["position"], np.nan)
        return found

    def _of_joints(self, columns: Columns, path: str, joints: tuple[str, ...], optional: bool) -> Array:
        named = self.joint_names(columns)
        if missing := [joint for joint in joints if joint not in named]:
            raise ReplayError(f"they lack {', '.join(missing)}")
        order = [named.index(joint) for joint in joints]
        values = _numbers(columns, path)
        if optional and not values.size:
            return np.full((len(columns.rows), len(joints)), np.nan)
        count = values.shape[1]
        if count <= max(order, default=-1) or not (isinstance(self.joints, list) or count == len(named)):
            raise ReplayError(f"their field {path} has {count} values, not one for each joint")
        return values[:, order]


def _source(record: str) -> type[TopicSource]:
    fields = [(name, Text, quantity.path) for name, quantity in QUANTITIES[record].items()]
    if record == names.JOINT_TRAJECTORY.name:
        fields.append(("names", Text, "joint_names"))
    source = defstruct("TopicSource", fields, bases=(TopicSource,), namespace={"record": record}, frozen=True)
    return cast("type[TopicSource]", source)


SOURCES = {record: _source(record) for record in QUANTITIES}
TopicMap = Mapping[str, TopicSource]  # by record
OWN: TopicMap = {
    **{record: source(record) for record, source in SOURCES.items()},
    "mode": SOURCES["mode"](names.MODE.of(names.CONTROLLER).name),
    "policy_step": SOURCES["policy_step"](names.POLICY_STEP.of(names.CONTROLLER).name),
}
_FILE = defstruct(  # a map as a YAML file
    "TopicMap",
    [(record.replace("/", "_"), source, OWN[record]) for record, source in SOURCES.items()],
    rename={"imu_data": names.IMU.name},
    forbid_unknown_fields=True,
)


def load_topic_map(path: str | Path) -> TopicMap:
    """Read a map by its path, or one of config/bags/ by its name; records that it lacks are as in the suite's bags.

    Raises FcnetError if it is unusable.
    """
    given = read_settings(preset(path, "bags", FILE), _FILE, FILE)
    return {field.encode_name: getattr(given, field.name) for field in structs.fields(_FILE)}


def _step(values: Array) -> Array:
    """Return policy steps (N, SIZE). Before version 0.2 their command had 16, with sine and cosine for the phase."""
    if values.shape[1] == len(SCALARS) + 16:
        stamps, command = np.split(values, [len(SCALARS)], axis=1)
        phase = np.arctan2(command[:, 8], command[:, 9]) / (2 * np.pi) % 1.0
        return np.column_stack([stamps, command[:, [*range(8), 11]], phase, command[:, 10]])
    if values.shape[1] != SIZE:
        raise ReplayError(f"they have {values.shape[1]} numbers, expected {SIZE}")
    return values


def _vector(columns: Columns, path: str, size: int, optional: bool = False) -> Array:
    """Return vectors (N, size) of an array field, or of a message with fields x, y, z, w; NaN if it is optional and
    missing.
    """
    values = _numbers(columns, path)
    if not values.size:
        values = np.hstack([_numbers(columns, f"{path}.{axis}") for axis in "xyzw"[:size]])
    if optional and not values.size:
        return np.full((len(columns.rows), size), np.nan)
    if values.shape[1] != size:
        raise ReplayError(f"their field {path} has {values.shape[1]} numbers, expected {size}")
    return values


def _numbers(columns: Columns, path: str) -> Array:
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
