"""Messages of a recording by their stamps, as they came off the wire: only few of them are ever looked into."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from itertools import islice

MOST = 20_000  # messages kept: 40 s at 500 Hz
SEARCHED = 2000  # of them, the last ones


def stamp_of(content: bytes) -> float:
    """The stamp [s] of a serialised message that begins with a header, as state_receiver.seconds has it."""
    sec, nanosec = struct.unpack_from("<iI" if content[1] & 1 else ">iI", content, 4)
    return float(sec + 1e-9 * nanosec)


class StampedMessages:
    """The messages of one topic; those that arrived first are forgotten."""

    def __init__(self) -> None:
        self._messages: dict[float, tuple[bytes, float]] = {}  # with the stamp of the message that arrived before
        self._last = math.nan

    def add(self, content: bytes) -> None:
        """Take a message; one of the same stamp is replaced."""
        stamp = stamp_of(content)
        self._messages.pop(stamp, None)
        self._messages[stamp] = content, self._last
        self._last = stamp
        if len(self._messages) > MOST:
            del self._messages[next(iter(self._messages))]

    def get(self, stamp: float) -> bytes | None:
        """The message with exactly this stamp."""
        return self._messages[stamp][0] if stamp in self._messages else None

    def is_behind(self, stamp: float) -> bool:
        """Whether the newest arrival is older than `stamp`: what has that stamp may be on its way."""
        return not self._last >= stamp

    def earlier(self, stamp: float, count: int) -> float:
        """The stamp of what arrived `count` messages before the one with this stamp; NaN where that is not known."""
        for _ in range(count):
            _, stamp = self._messages.get(stamp, (b"", math.nan))
        return stamp

    def latest(self, stamp: float, oldest: float) -> bytes | None:
        """The newest message with a stamp from `oldest` to `stamp`."""
        found = [key for key in self._searched() if oldest <= key <= stamp]
        return self._messages[max(found)][0] if found else None

    def has_any(self, first: float, last: float) -> bool:
        """Whether there is a message with a stamp from `first` to `last`."""
        return any(first <= stamp <= last for stamp in self._searched())

    def _searched(self) -> Iterator[float]:
        return islice(reversed(self._messages), SEARCHED)
