"""From the messages of a bag to the arrays that a run is made of, thousands of messages at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.observation import SIZE
from fcnet_core.robot import JOINT_NAMES
from fcnet_core.rotation import xyzw_from_wxyz
from fcnet_replay.bags.contents import MessageBatch
from fcnet_replay.bags.message_columns import ColumnDecoder, Columns, fields_for
from fcnet_replay.errors import ReplayError
from fcnet_replay.run import JOINTS, Rows
from fcnet_replay.topic_map import TopicSource

# The quantities of each kind of record and how many numbers each has in a message: 0 for a plain number.
QUANTITIES: dict[str, dict[str, int]] = {
    "joint_states": {"stamp": 0, "position": JOINTS, "velocity": JOINTS, "effort": JOINTS},
    "imu/data": {"stamp": 0, "orientation": 4, "angular_velocity": 3, "linear_acceleration": 3},
    "joint_trajectory": {"stamp": 0, "position": JOINTS},
    "odom": {"stamp": 0, "position": 3, "orientation": 4, "velocity": 3, "angular_velocity": 3},
    "cmd_vel": {"forward": 0, "sideways": 0, "yaw_rate": 0},
    "cmd_pose": {"height": 0, "orientation": 4},
    "mode": {"mode": 0},
    "policy_step": {"step": SIZE},
}
MODES = ("passive", "standing_up", "standing", "walking", "lying_down", "fault")
AXES = "xyzw"
ENOUGH = 256 * 2**10  # [bytes] to decode at a time: they stay in the cache
LARGEST = 1e12  # of any number; times are a thousandth of it
MOST_MESSAGES = 2_000_000  # of one topic: more than an hour at 500 Hz
MOST_PROBLEMS = 20  # of one topic


class TopicReader:
    """Takes the messages of one topic for a record of `kind` that lies in them as `source` says.

    definitions: of the bag's types.
    """

    def __init__(self, kind: str, source: TopicSource, definitions: Mapping[str, tuple[str, str]]) -> None:
        self.problems: dict[str, int] = {}  # sentence -> number of messages left out for it
        self.damaged = 0  # messages with numbers that cannot be, which are NaN in the arrays
        self._kind = kind
        self._source = source
        self._definitions = definitions
        self._decoder: tuple[str, ColumnDecoder] | None = None
        self._waiting: list[MessageBatch] = []
        self._arrays: dict[str, list[npt.NDArray[Any]]] = {
            name: [np.empty((0, size) if size else 0)] for name, size in QUANTITIES[kind].items()
        }
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

    def finish(self) -> dict[str, Array]:
        """Every quantity (N, size) or (N,) of all messages, in the order of the bag; received (N,): when they were
        received [s]. A stamp that the messages do not have is NaN.
        """
        self._decode()
        received = np.concatenate(self._received).astype(np.float64) * 1e-9
        return {"received": received} | {name: np.concatenate(parts) for name, parts in self._arrays.items()}

    def _decode(self) -> None:
        batches, self._waiting = self._waiting, []
        if not batches:
            return
        kind = batches[0].kind
        if self._decoder is None or self._decoder[0] != kind:
            self._decoder = kind, ColumnDecoder(kind, fields_for(kind, self._definitions))
        content, size, received = (
            _joined([getattr(batch, part) for batch in batches]) for part in ("content", "size", "received")
        )
        groups: list[tuple[Rows, dict[str, Array]]] = []
        for group in self._decoder[1].decode(content, size):
            if not isinstance(group, Columns):
                self._leave_out(group[1], 1)
            elif len(group.rows):
                try:
                    groups.append((group.rows, _quantities(self._kind, self._source, group)))
                except ReplayError as error:
                    self._leave_out(str(error), len(group.rows))
        if groups:
            self._keep(received, groups)

    def _keep(self, received: Rows, groups: list[tuple[Rows, dict[str, Array]]]) -> None:
        """Keep these groups of messages, each with its rows, in the order of the bag."""
        rows = _joined([rows for rows, _ in groups])
        order = np.argsort(rows, kind="stable") if (np.diff(rows) < 0).any() else slice(None)
        self._received.append(received[rows[order]])
        damaged = np.zeros(len(rows), dtype=np.bool_)
        for name, kept in self._arrays.items():
            values = _joined([values[name] for _, values in groups])[order]
            wrong = np.abs(values) > LARGEST
            if wrong.any():
                damaged |= wrong.reshape(len(rows), -1).any(axis=1)
                values[wrong] = np.nan
            kept.append(values)
        self.damaged += int(damaged.sum())

    def _leave_out(self, sentence: str, messages: int) -> None:
        if len(self.problems) >= MOST_PROBLEMS:
            sentence = "of other faults"
        self.problems[sentence] = self.problems.get(sentence, 0) + messages


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _quantities(kind: str, source: TopicSource, columns: Columns) -> dict[str, Array]:
    """Every quantity of messages (N, size) or (N,). Raises ReplayError where they cannot be used."""
    values: dict[str, Array] = {}
    for name, size in QUANTITIES[kind].items():
        if name == "stamp":
            values[name] = _stamp(columns)
        elif name == "mode":
            values[name] = _mode(source, columns)
        elif size == JOINTS:
            values[name] = _joint_values(kind, source, columns, name)
        elif name not in source.fields:  # optional
            values[name] = np.full((len(columns.rows), size), np.nan)
        else:
            vector = _vector(columns, source.fields[name], max(size, 1))
            vector = xyzw_from_wxyz(vector) if name == "orientation" and source.wxyz else vector
            values[name] = vector if size else vector[:, 0]
    return values


def _stamp(columns: Columns) -> Array:
    """Seconds (N,); NaN where the messages have no stamp or left it at zero."""
    seconds = columns.numbers.get("header.stamp.sec")
    fraction = columns.numbers.get("header.stamp.nanosec")
    if seconds is None or fraction is None:
        return np.full(len(columns.rows), np.nan)
    stamp: Array = seconds[:, 0] + 1e-9 * fraction[:, 0]
    return np.where(stamp > 0, stamp, np.nan)


def _mode(source: TopicSource, columns: Columns) -> Array:
    """Indices into MODES (N,)."""
    texts = columns.texts.get(source.fields["mode"], [])
    if len(texts) != 1 or texts[0] not in MODES:
        raise ReplayError(f"they name no known mode but {', '.join(texts)[:40]!r}")
    return np.full(len(columns.rows), float(MODES.index(texts[0])))


def _joint_values(kind: str, source: TopicSource, columns: Columns, name: str) -> Array:
    """Values (N, 12) in JOINT_NAMES order; NaN for efforts that are not there, and for targets that damp: they have no
    positions, or no stiffness where messages have such a field.
    """
    names = source.joints or columns.texts.get(source.fields.get("names", ""), [])
    wanted = JOINT_NAMES if source.joints else [source.names[joint] for joint in JOINT_NAMES]
    if missing := [joint for joint in wanted if joint not in names]:
        raise ReplayError(f"they lack {', '.join(missing)}")
    order = [names.index(joint) for joint in wanted]
    path = source.fields.get(name, "")
    values = _numbers(columns, path)
    count = 0 if values is None else values.shape[1]
    if values is None or count <= max(order) or not (source.joints or count == len(names)):
        if name == "effort" or (kind == "joint_trajectory" and not count):
            return np.full((len(columns.rows), JOINTS), np.nan)
        raise ReplayError(f"their field {path} has {count} values, not one for each joint")
    if kind == "joint_trajectory" and "stiffness" in source.fields:
        stiffness = _vector(columns, source.fields["stiffness"], count)
        values = np.where(stiffness > 0, values, np.nan)
    return values[:, order]


def _vector(columns: Columns, path: str, size: int) -> Array:
    """A vector (N, size): an array of numbers, or a message with fields x, y, z, w."""
    values = _numbers(columns, path)
    if values is None and all(f"{path}.{axis}" in columns.numbers for axis in AXES[:size]):
        values = np.hstack([columns.numbers[f"{path}.{axis}"] for axis in AXES[:size]]).astype(np.float64)
    if values is None or values.shape[1] != size:
        found = "no field" if values is None else f"{values.shape[1]} numbers in"
        raise ReplayError(f"they have {found} {path}, where {size} {'number is' if size == 1 else 'numbers are'} due")
    return values


def _numbers(columns: Columns, path: str) -> Array | None:
    """The numbers (N, count) of a path, in which [] stands for every element of a sequence. A TwistStamped has those of
    a Twist under `twist`.
    """
    before, each, after = path.partition("[]")
    if not each:
        values = columns.numbers.get(path)
        values = columns.numbers.get(f"twist.{path}") if values is None else values
        return None if values is None else values.astype(np.float64)
    found: list[Array] = []
    while (values := columns.numbers.get(f"{before}[{len(found)}]{after}")) is not None:
        found.append(values.astype(np.float64))
    return np.hstack(found) if found else None
