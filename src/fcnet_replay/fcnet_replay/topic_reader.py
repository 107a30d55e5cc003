"""From the messages of a bag to the rows of numbers that a run is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.observation import SIZE
from fcnet_core.robot import JOINT_NAMES
from fcnet_core.rotation import xyzw_from_wxyz
from fcnet_replay.bags.message_batch import MessageBatch
from fcnet_replay.bags.message_columns import ColumnDecoder, Columns, fields_for
from fcnet_replay.topic_map import TopicSource

# Collects one topic's messages of a bag as arrays, thousands at a time, so that memory holds numbers only.

ENOUGH = 256 * 2**10  # [bytes] to decode at a time: they stay in the cache
LARGEST = 1e12  # of any number; times are a thousandth of it
MOST_MESSAGES = 2_000_000  # of one topic: more than an hour at 500 Hz


class UnusableError(ValueError):
    """Messages cannot be used; the sentence says why."""


class TopicReader:
    """Takes the messages of one topic and turns them into rows of `width` numbers, one a message.

    pick: from Columns to the rows (N, width) of its messages; it raises UnusableError. definitions: of the bag's types.
    """

    def __init__(
        self,
        width: int,
        pick: Callable[[Columns], npt.NDArray[np.float64]],
        definitions: Mapping[str, tuple[str, str]],
    ) -> None:
        self.problems: dict[str, int] = {}  # sentence -> number of messages left out for it
        self.damaged = 0  # messages with numbers that cannot be, which are NaN in the rows
        self._width = width
        self._pick = pick
        self._definitions = definitions
        self._decoder: tuple[str, ColumnDecoder] | None = None
        self._waiting: list[MessageBatch] = []
        self._rows: list[npt.NDArray[np.float64]] = []
        self._received: list[npt.NDArray[np.int64]] = []
        self._taken = 0

    def add(self, batch: MessageBatch) -> None:
        """Take some messages."""
        if self._taken >= MOST_MESSAGES:
            self._leave_out(f"they come after {MOST_MESSAGES} others", len(batch.size))
            return
        if self._waiting and batch.kind != self._waiting[0].kind:
            self._decode()
        self._taken += len(batch.size)
        self._waiting.append(batch)
        if sum(len(waiting.content) for waiting in self._waiting) >= ENOUGH:
            self._decode()

    def finish(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """When the messages were received (N,) [s] and their rows (N, width), in the order of the bag."""
        self._decode()
        rows = _joined(self._rows) if self._rows else np.empty((0, self._width))
        received = _joined(self._received) if self._received else np.empty(0, dtype=np.int64)
        return received.astype(np.float64) * 1e-9, rows

    def _decode(self) -> None:
        batches, self._waiting = self._waiting, []
        if not batches:
            return
        content, size = _joined([batch.content for batch in batches]), _joined([batch.size for batch in batches])
        places, parts = [], []
        for group in self._decoder_for(batches[0].kind).decode(content, size):
            if not isinstance(group, Columns):
                self._leave_out(group[1], 1)
            elif (rows := self._picked(group)) is not None:
                places.append(group.rows)
                parts.append(rows)
        if parts:
            order = _joined(places)
            self._keep(_joined([batch.received for batch in batches])[order], _joined(parts), order)

    def _picked(self, group: Columns) -> npt.NDArray[np.float64] | None:
        try:
            return self._pick(group) if len(group.rows) else None
        except UnusableError as error:
            self._leave_out(str(error), len(group.rows))
            return None

    def _keep(
        self, received: npt.NDArray[np.int64], rows: npt.NDArray[np.float64], places: npt.NDArray[np.int64]
    ) -> None:
        """Keep these rows in the order of their places in the bag."""
        if (np.diff(places) < 0).any():
            order = np.argsort(places)
            received, rows = received[order], rows[order]
        damaged = np.abs(rows) > LARGEST
        if damaged.any():
            self.damaged += int(damaged.any(axis=1).sum())
            rows[damaged] = np.nan
        self._rows.append(rows)
        self._received.append(received)

    def _decoder_for(self, kind: str) -> ColumnDecoder:
        if self._decoder is None or self._decoder[0] != kind:
            self._decoder = kind, ColumnDecoder(kind, fields_for(kind, self._definitions))
        return self._decoder[1]

    def _leave_out(self, sentence: str, messages: int) -> None:
        if len(self.problems) >= 20:
            sentence = "of other faults"
        self.problems[sentence] = self.problems.get(sentence, 0) + messages


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


# From decoded messages to the rows of numbers that a RecordedRun is made of, by the paths of a topic map.

Array = npt.NDArray[np.float64]
Picker = Callable[[TopicSource, Columns], Array]
JOINTS = len(JOINT_NAMES)
MODES = ("passive", "standing_up", "standing", "walking", "lying_down", "fault")
AXES = "xyzw"


def pick_joints(source: TopicSource, columns: Columns) -> Array:
    """Stamp, positions, velocities and efforts of joint states (N, 37)."""
    order = _order(source, columns)
    known = [_joint_values(source, columns, name, order) for name in ("position", "velocity")]
    return np.hstack([_stamp(columns), *known, _effort(source, columns, order)])


def pick_imu(source: TopicSource, columns: Columns) -> Array:
    """Stamp, orientation, angular velocity and acceleration (N, 11)."""
    accelerated = _vector(source, columns, "linear_acceleration", 3) if "linear_acceleration" in source.fields else None
    unknown = np.full((len(columns.rows), 3), np.nan)
    return np.hstack(
        [
            _stamp(columns),
            _orientation(source, columns),
            _vector(source, columns, "angular_velocity", 3),
            unknown if accelerated is None else accelerated,
        ]
    )


def pick_targets(source: TopicSource, columns: Columns) -> Array:
    """Stamp and positions of targets (N, 13), NaN where joints are to be damped."""
    order = _order(source, columns)
    damped = np.full((len(columns.rows), JOINTS), np.nan)
    told = _numbers(columns, source.fields["position"])
    if told is None or not told.shape[1]:
        return np.hstack([_stamp(columns), damped])
    position = _joint_values(source, columns, "position", order)
    if "stiffness" in source.fields:
        position = np.where(_joint_values(source, columns, "stiffness", order) > 0, position, np.nan)
    return np.hstack([_stamp(columns), position])


def pick_step(source: TopicSource, columns: Columns) -> Array:
    """The numbers of a policy_step (N, 21)."""
    return _vector(source, columns, "step", SIZE)


def pick_mode(source: TopicSource, columns: Columns) -> Array:
    """Indices into MODES (N, 1)."""
    texts = columns.texts.get(source.fields["mode"], [])
    if len(texts) != 1 or texts[0] not in MODES:
        raise UnusableError(f"they name no known mode but {', '.join(texts)[:40]!r}")
    return np.full((len(columns.rows), 1), float(MODES.index(texts[0])))


def pick_velocity(source: TopicSource, columns: Columns) -> Array:
    """Commanded velocities (N, 3), of a Twist or a TwistStamped."""
    found = []
    for name in ("forward", "sideways", "yaw_rate"):
        path = source.fields[name]
        values = _numbers(columns, path if path in columns.numbers else f"twist.{path}")
        if values is None or values.shape[1] != 1:
            raise UnusableError(f"they have no number {path}")
        found.append(values)
    return np.hstack(found)


def pick_pose(source: TopicSource, columns: Columns) -> Array:
    """Commanded height and orientation (N, 5)."""
    return np.hstack([_vector(source, columns, "height", 1), _orientation(source, columns)])


def pick_odometry(source: TopicSource, columns: Columns) -> Array:
    """Stamp, position, orientation, velocity and angular velocity (N, 14)."""
    return np.hstack(
        [
            _stamp(columns),
            _vector(source, columns, "position", 3),
            _orientation(source, columns),
            _vector(source, columns, "velocity", 3),
            _vector(source, columns, "angular_velocity", 3),
        ]
    )


def _stamp(columns: Columns) -> Array:
    """Seconds (N, 1); NaN where the messages have no stamp or left it at zero."""
    seconds = columns.numbers.get("header.stamp.sec")
    fraction = columns.numbers.get("header.stamp.nanosec")
    if seconds is None or fraction is None:
        return np.full((len(columns.rows), 1), np.nan)
    stamp = seconds + 1e-9 * fraction
    return np.where(stamp > 0, stamp, np.nan)


def _order(source: TopicSource, columns: Columns) -> list[int]:
    """Where in the messages' values each of our joints is."""
    if source.joints:
        return [source.joints.index(joint) for joint in JOINT_NAMES]
    names = columns.texts.get(source.fields.get("names", ""), [])
    if missing := [source.names[joint] for joint in JOINT_NAMES if source.names[joint] not in names]:
        raise UnusableError(f"they lack {', '.join(missing)}")
    return [names.index(source.names[joint]) for joint in JOINT_NAMES]


def _joint_values(source: TopicSource, columns: Columns, name: str, order: list[int]) -> Array:
    path = source.fields[name]
    values = _numbers(columns, path)
    if values is None:
        raise UnusableError(f"they have no field {path}")
    if values.shape[1] <= max(order) or not (source.joints or values.shape[1] == len(_named(source, columns))):
        raise UnusableError(f"their field {path} has {values.shape[1]} values, not one for each joint")
    return values[:, order]


def _named(source: TopicSource, columns: Columns) -> list[str]:
    return columns.texts.get(source.fields.get("names", ""), [])


def _effort(source: TopicSource, columns: Columns, order: list[int]) -> Array:
    values = _numbers(columns, source.fields["effort"]) if "effort" in source.fields else None
    if values is None or values.shape[1] <= max(order):
        return np.full((len(columns.rows), JOINTS), np.nan)
    return values[:, order]


def _orientation(source: TopicSource, columns: Columns) -> Array:
    quaternion = _vector(source, columns, "orientation", 4)
    return xyzw_from_wxyz(quaternion) if source.wxyz else quaternion


def _vector(source: TopicSource, columns: Columns, name: str, size: int) -> Array:
    """A vector (N, size): an array of numbers, or a message with fields x, y, z, w."""
    path = source.fields[name]
    values = _numbers(columns, path)
    if values is None and all(f"{path}.{axis}" in columns.numbers for axis in AXES[:size]):
        values = np.hstack([columns.numbers[f"{path}.{axis}"] for axis in AXES[:size]]).astype(np.float64)
    if values is None or values.shape[1] != size:
        found = "no field" if values is None else f"{values.shape[1]} numbers in"
        raise UnusableError(f"they have {found} {path}, where {size} {'number is' if size == 1 else 'numbers are'} due")
    return values


def _numbers(columns: Columns, path: str) -> Array | None:
    """The numbers (N, count) of a path, in which [] stands for every element of a sequence."""
    before, each, after = path.partition("[]")
    if not each:
        values = columns.numbers.get(path)
        return None if values is None else values.astype(np.float64)
    found: list[npt.NDArray[np.float64]] = []
    while (values := columns.numbers.get(f"{before}[{len(found)}]{after}")) is not None:
        found.append(values.astype(np.float64))
    return np.hstack(found) if found else None
