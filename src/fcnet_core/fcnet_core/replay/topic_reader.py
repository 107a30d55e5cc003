"""Collects one topic's messages of a bag as arrays, thousands at a time, so that memory holds numbers only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.bags.message_batch import MessageBatch
from fcnet_core.bags.message_columns import ColumnDecoder, Columns
from fcnet_core.bags.message_types import fields_for

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
