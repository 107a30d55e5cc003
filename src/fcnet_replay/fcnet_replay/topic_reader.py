"""From the messages of a bag to the rows of numbers that a run is made of, thousands of messages at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.observation import SIZE
from fcnet_core.robot import JOINT_NAMES
from fcnet_core.rotation import xyzw_from_wxyz
from fcnet_replay.bags.contents import MessageBatch
from fcnet_replay.bags.message_columns import ColumnDecoder, Columns, fields_for
from fcnet_replay.errors import ReplayError
from fcnet_replay.run import JOINTS, Array, Rows
from fcnet_replay.topic_map import TopicSource

ENOUGH = 256 * 2**10  # [bytes] to decode at a time: they stay in the cache
LARGEST = 1e12  # of any number; times are a thousandth of it
MOST_MESSAGES = 2_000_000  # of one topic: more than an hour at 500 Hz
MOST_PROBLEMS = 20  # of one topic
MODES = ("passive", "standing_up", "standing", "walking", "lying_down", "fault")
AXES = "xyzw"

Picker = Callable[[TopicSource, Columns], Array]


class TopicReader:
    """Takes the messages of one topic and turns them into rows of `width` numbers, one a message.

    pick: from Columns to the rows (N, width) of its messages; it raises ReplayError where they cannot be used.
    definitions: of the bag's types.
    """

    def __init__(
        self, width: int, pick: Callable[[Columns], Array], definitions: Mapping[str, tuple[str, str]]
    ) -> None:
        self.problems: dict[str, int] = {}  # sentence -> number of messages left out for it
        self.damaged = 0  # messages with numbers that cannot be, which are NaN in the rows
        self._pick = pick
        self._definitions = definitions
        self._decoders: dict[str, ColumnDecoder] = {}
        self._waiting: list[MessageBatch] = []
        self._rows = [np.empty((0, width))]
        self._received = [np.empty(0, dtype=np.int64)]
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

    def finish(self) -> tuple[Array, Array]:
        """When the messages were received (N,) [s] and their rows (N, width), in the order of the bag."""
        self._decode()
        return np.concatenate(self._received).astype(np.float64) * 1e-9, np.concatenate(self._rows)

    def _decode(self) -> None:
        batches, self._waiting = self._waiting, []
        if not batches:
            return
        kind = batches[0].kind
        if kind not in self._decoders:
            self._decoders = {kind: ColumnDecoder(kind, fields_for(kind, self._definitions))}
        content = _joined([batch.content for batch in batches])
        size = _joined([batch.size for batch in batches])
        places, parts = [], []
        for group in self._decoders[kind].decode(content, size):
            if not isinstance(group, Columns):
                self._leave_out(group[1], 1)
            elif len(group.rows):
                try:
                    parts.append(self._pick(group))
                    places.append(group.rows)
                except ReplayError as error:
                    self._leave_out(str(error), len(group.rows))
        if parts:
            self._keep(_joined([batch.received for batch in batches]), _joined(parts), _joined(places))

    def _keep(self, received: Rows, rows: Array, places: Rows) -> None:
        """Keep these rows in the order of their places in the bag."""
        if (np.diff(places) < 0).any():
            order = np.argsort(places)
            places, rows = places[order], rows[order]
        damaged = np.abs(rows) > LARGEST
        if damaged.any():
            self.damaged += int(damaged.any(axis=1).sum())
            rows[damaged] = np.nan
        self._rows.append(rows)
        self._received.append(received[places])

    def _leave_out(self, sentence: str, messages: int) -> None:
        if len(self.problems) >= MOST_PROBLEMS:
            sentence = "of other faults"
        self.problems[sentence] = self.problems.get(sentence, 0) + messages


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def pick_joints(source: TopicSource, columns: Columns) -> Array:
    """Stamp, positions, velocities and efforts of joint states (N, 37)."""
    effort = _numbers(columns, source.fields.get("effort", ""))
    if effort is None or effort.shape[1] <= max(_order(source, columns)):
        effort = np.full((len(columns.rows), JOINTS), np.nan)
    else:
        effort = effort[:, _order(source, columns)]
    known = [_joint_values(source, columns, name) for name in ("position", "velocity")]
    return np.hstack([_stamp(columns), *known, effort])


def pick_imu(source: TopicSource, columns: Columns) -> Array:
    """Stamp, orientation, angular velocity and acceleration (N, 11)."""
    accelerated = "linear_acceleration" in source.fields
    unknown = np.full((len(columns.rows), 3), np.nan)
    return np.hstack(
        [
            _stamp(columns),
            _orientation(source, columns),
            _vector(source, columns, "angular_velocity", 3),
            _vector(source, columns, "linear_acceleration", 3) if accelerated else unknown,
        ]
    )


def pick_targets(source: TopicSource, columns: Columns) -> Array:
    """Stamp and positions of targets (N, 13), NaN where joints are to be damped."""
    position = _numbers(columns, source.fields["position"])
    if position is None or not position.shape[1]:
        position = np.full((len(columns.rows), JOINTS), np.nan)
        _order(source, columns)  # they must name the joints all the same
    else:
        position = _joint_values(source, columns, "position")
        if "stiffness" in source.fields:
            position = np.where(_joint_values(source, columns, "stiffness") > 0, position, np.nan)
    return np.hstack([_stamp(columns), position])


def pick_step(source: TopicSource, columns: Columns) -> Array:
    """The numbers of a policy_step (N, 21)."""
    return _vector(source, columns, "step", SIZE)


def pick_mode(source: TopicSource, columns: Columns) -> Array:
    """Indices into MODES (N, 1)."""
    texts = columns.texts.get(source.fields["mode"], [])
    if len(texts) != 1 or texts[0] not in MODES:
        raise ReplayError(f"they name no known mode but {', '.join(texts)[:40]!r}")
    return np.full((len(columns.rows), 1), float(MODES.index(texts[0])))


def pick_velocity(source: TopicSource, columns: Columns) -> Array:
    """Commanded velocities (N, 3), of a Twist or a TwistStamped."""
    found = []
    for name in ("forward", "sideways", "yaw_rate"):
        path = source.fields[name]
        values = _numbers(columns, path if path in columns.numbers else f"twist.{path}")
        if values is None or values.shape[1] != 1:
            raise ReplayError(f"they have no number {path}")
        found.append(values)
    return np.hstack(found)


def pick_pose(source: TopicSource, columns: Columns) -> Array:
    """Commanded height and orientation (N, 5)."""
    return np.hstack([_vector(source, columns, "height", 1), _orientation(source, columns)])


def pick_odometry(source: TopicSource, columns: Columns) -> Array:
    """Stamp, position, orientation, velocity and angular velocity (N, 14)."""
    position, *turning = (_vector(source, columns, name, 3) for name in ("position", "velocity", "angular_velocity"))
    return np.hstack([_stamp(columns), position, _orientation(source, columns), *turning])


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
    names = source.joints or columns.texts.get(source.fields.get("names", ""), [])
    wanted = JOINT_NAMES if source.joints else [source.names[joint] for joint in JOINT_NAMES]
    if missing := [joint for joint in wanted if joint not in names]:
        raise ReplayError(f"they lack {', '.join(missing)}")
    return [names.index(joint) for joint in wanted]


def _joint_values(source: TopicSource, columns: Columns, name: str) -> Array:
    path, order = source.fields[name], _order(source, columns)
    values = _numbers(columns, path)
    if values is None:
        raise ReplayError(f"they have no field {path}")
    named = len(columns.texts.get(source.fields.get("names", ""), []))
    if values.shape[1] <= max(order) or not (source.joints or values.shape[1] == named):
        raise ReplayError(f"their field {path} has {values.shape[1]} values, not one for each joint")
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
        raise ReplayError(f"they have {found} {path}, where {size} {'number is' if size == 1 else 'numbers are'} due")
    return values


def _numbers(columns: Columns, path: str) -> Array | None:
    """The numbers (N, count) of a path, in which [] stands for every element of a sequence."""
    before, each, after = path.partition("[]")
    if not each:
        values = columns.numbers.get(path)
        return None if values is None else values.astype(np.float64)
    found: list[Array] = []
    while (values := columns.numbers.get(f"{before}[{len(found)}]{after}")) is not None:
        found.append(values.astype(np.float64))
    return np.hstack(found) if found else None
