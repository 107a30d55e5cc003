"""Messages of a recording by their stamps, as they came off the wire: only few of them are ever looked into."""

from __future__ import annotations

import struct
from collections.abc import Iterator

MOST = 20_000  # messages kept: 40 s at 500 Hz
OUT_OF_ORDER = 1.0  # [s] that a message may come too late and still be found among the others


def stamp_of(content: bytes) -> float:
    """The stamp [s] of a serialised message that begins with a header, as state_receiver.seconds has it."""
    sec, nanosec = struct.unpack_from("<iI" if content[1] & 1 else ">iI", content, 4)
    return float(sec + 1e-9 * nanosec)


class StampedMessages:
    """The messages of one topic; those that arrived first are forgotten."""

    def __init__(self) -> None:
        self._messages: dict[float, bytes] = {}

    def add(self, content: bytes) -> None:
        """Take a message; one of the same stamp is replaced."""
        stamp = stamp_of(content)
        self._messages.pop(stamp, None)
        self._messages[stamp] = content
        if len(self._messages) > MOST:
            del self._messages[next(iter(self._messages))]

    def get(self, stamp: float) -> bytes | None:
        """The message with exactly this stamp."""
        return self._messages.get(stamp)

    def latest(self, stamp: float, oldest: float) -> bytes | None:
        """The newest message with a stamp from `oldest` to `stamp`."""
        found = [key for key in self._since(oldest) if key <= stamp]
        return self._messages[max(found)] if found else None

    def between(self, first: float, last: float) -> int:
        """How many messages have stamps from `first` to `last`, those included."""
        return sum(1 for stamp in self._since(first) if stamp <= last)

    def _since(self, first: float) -> Iterator[float]:
        """Stamps from `first` on, the last arrived first."""
        for stamp in reversed(self._messages):
            if stamp < first - OUT_OF_ORDER:
                return
            if stamp >= first:
                yield stamp
