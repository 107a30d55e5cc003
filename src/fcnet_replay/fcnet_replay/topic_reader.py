"""From the messages of a bag to the arrays that a run is made of, thousands of messages at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core import counted
from fcnet_core.arrays import Array, Rows
from fcnet_core.errors import ReplayError
from fcnet_replay.bags.contents import MessageBatch
from fcnet_replay.bags.message_columns import ColumnDecoder, Columns, fields_for
from fcnet_replay.problem import Problem
from fcnet_replay.topic_map import TopicSource

ENOUGH = 256 * 2**10  # [bytes] to decode at a time: they stay in the cache
LARGEST = 1e12  # of any number; times are a thousandth of it
MOST_MESSAGES = 2_000_000  # of one topic: more than an hour at 500 Hz
MOST_PROBLEMS = 20  # of one topic


class TopicReader:
    """Takes the messages of one topic, `name`, for the record that lies in them as `source` says.

    definitions: of the bag's types.
    """

    def __init__(self, name: str, source: TopicSource, definitions: Mapping[str, tuple[str, str]]) -> None:
        self.name = name
        self._source = source
        self._definitions = definitions
        self._decoders: dict[tuple[str, str], ColumnDecoder] = {}  # by type and encoding
        self._waiting: list[MessageBatch] = []
        self._parts: dict[str, list[Array]] = {}  # of every quantity
        self._taken = 0
        self._left_out: dict[str, int] = {}  # sentence -> number of messages left out for it
        self._damaged = 0  # messages with numbers that cannot be, which are NaN in the arrays

    def add(self, batch: MessageBatch) -> None:
        """Take some messages."""
        if self._taken >= MOST_MESSAGES:
            self._leave_out(f"they come after {MOST_MESSAGES} others", len(batch.size))
            return
        if self._waiting and (batch.kind, batch.encoding) != (self._waiting[0].kind, self._waiting[0].encoding):
            self._decode()
        self._taken += len(batch.size)
        self._waiting.append(batch)
        if sum(len(waiting.content) for waiting in self._waiting) >= ENOUGH:
            self._decode()

    def finish(self) -> dict[str, Array]:
        """Every quantity (N, size) or (N,) of all messages, in the order of the bag, and when they were `received` (N,)
        [s]; nothing where there are no messages. A stamp that the messages do not have is NaN.
        """
        self._decode()
        return {name: np.concatenate(parts) for name, parts in self._parts.items()}

    def problems(self) -> Iterator[Problem]:
        """Return what was left out."""
        for reason, count in self._left_out.items():
            yield Problem("left_out", f"{counted(count, 'message')} of {self.name} left out: {reason}")
        if self._damaged:
            what = "with numbers that cannot be, which are damaged or left out"
            yield Problem("damaged", f"{counted(self._damaged, 'message')} of {self.name} {what}")

    def _decode(self) -> None:
        batches, self._waiting = self._waiting, []
        if not batches:
            return
        kind, encoding = batches[0].kind, batches[0].encoding
        if (kind, encoding) not in self._decoders:
            types = fields_for(kind, *self._definitions.get(kind, ()))
            self._decoders[kind, encoding] = ColumnDecoder(kind, types, encoding)
        content, size, received = (
            _joined([getattr(batch, part) for batch in batches]) for part in ("content", "size", "received")
        )
        groups: list[tuple[Rows, dict[str, Array]]] = []
        for group in self._decoders[kind, encoding].decode(content, size):
            if not isinstance(group, Columns):
                self._leave_out(f"they are in ROS 1's encoding, and {group[1]}" if encoding == "ros1" else group[1], 1)
            elif len(group.rows):
                try:
                    groups.append((group.rows, self._source.read(group)))
                except ReplayError as error:
                    self._leave_out(str(error), len(group.rows))
        if groups:
            self._keep(received, groups)

    def _keep(self, received: Rows, groups: list[tuple[Rows, dict[str, Array]]]) -> None:
        """Keep these groups of messages, each with its rows, in the order of the bag."""
        rows = _joined([rows for rows, _ in groups])
        order = np.argsort(rows, kind="stable") if (np.diff(rows) < 0).any() else slice(None)
        self._parts.setdefault("received", []).append(received[rows[order]].astype(np.float64) * 1e-9)
        damaged = np.zeros(len(rows), dtype=np.bool_)
        for name in groups[0][1]:
            values = _joined([values[name] for _, values in groups])[order]
            wrong = np.abs(values) > LARGEST
            if wrong.any():
                damaged |= wrong.reshape(len(rows), -1).any(axis=1)
                values[wrong] = np.nan
            self._parts.setdefault(name, []).append(values)
        self._damaged += int(damaged.sum())

    def _leave_out(self, reason: str, messages: int) -> None:
        if len(self._left_out) >= MOST_PROBLEMS:
            reason = "of other faults"
        self._left_out[reason] = self._left_out.get(reason, 0) + messages


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
