"""Collects one topic's messages of a bag as arrays, a thousand at a time, so that memory holds numbers only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fcnet_core.bags.message_columns import Columns, UndecodableError, decode_columns
from fcnet_core.bags.raw_message import RawMessage

BATCH = 1000


class TopicReader:
    """Takes the raw messages of one topic and turns them into rows of `width` numbers, one a message.

    pick: from Columns to the rows (N, width) of its messages, or a sentence that says why they cannot be used.
    """

    def __init__(self, kind: str, width: int, pick: Callable[[Columns], npt.NDArray[np.float64] | str]) -> None:
        self.kind = kind
        self.problems: dict[str, int] = {}  # sentence -> number of messages left out for it
        self._width = width
        self._pick = pick
        self._waiting: list[bytes] = []
        self._waiting_received: list[int] = []
        self._rows: list[npt.NDArray[np.float64]] = []
        self._received: list[npt.NDArray[np.int64]] = []

    def add(self, message: RawMessage) -> None:
        """Take one message."""
        if message.kind != self.kind:
            self._leave_out(f"it is of type {message.kind}, not {self.kind}", 1)
            return
        self._waiting.append(message.data)
        self._waiting_received.append(message.received)
        if len(self._waiting) >= BATCH:
            self._decode()

    def finish(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """When the messages were received (N,) [s] and their rows (N, width), in the order of the bag."""
        self._decode()
        rows = np.concatenate(self._rows) if self._rows else np.empty((0, self._width))
        received = np.concatenate(self._received) if self._received else np.empty(0, dtype=np.int64)
        return received.astype(np.float64) * 1e-9, rows

    def _decode(self) -> None:
        messages, received = self._waiting, np.array(self._waiting_received, dtype=np.int64)
        self._waiting, self._waiting_received = [], []
        rows = np.full((len(messages), self._width), np.nan)
        good = np.zeros(len(messages), dtype=np.bool_)
        for columns in self._groups(messages):
            picked = self._pick(columns)
            if isinstance(picked, str):
                self._leave_out(picked, len(columns.rows))
            else:
                rows[columns.rows], good[columns.rows] = picked, True
        self._rows.append(rows[good])
        self._received.append(received[good])

    def _groups(self, messages: list[bytes]) -> list[Columns]:
        try:
            return list(decode_columns(self.kind, messages))
        except UndecodableError:
            return self._one_by_one(messages)

    def _one_by_one(self, messages: list[bytes]) -> list[Columns]:
        found = []
        for row, message in enumerate(messages):
            try:
                (columns,) = decode_columns(self.kind, [message])
                found.append(Columns(np.array([row]), columns.numbers, columns.texts))
            except UndecodableError as error:
                self._leave_out(str(error), 1)
        return found

    def _leave_out(self, sentence: str, messages: int) -> None:
        self.problems[sentence] = self.problems.get(sentence, 0) + messages
