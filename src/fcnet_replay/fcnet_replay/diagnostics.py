"""Values of one status in serialised messages on /diagnostics."""

from __future__ import annotations

import struct
from collections.abc import Iterator

LITTLE_ENDIAN = b"\0\1"
START = 4  # [bytes] of the encapsulation, from whose end alignment counts
STAMP = 8  # [bytes]
LENGTH = struct.Struct("<I")


def status_values(message: bytes, name: str) -> dict[str, str]:
    """Return the values by key of the status called `name` in a CDR DiagnosticArray; empty if absent or malformed.

    Decodes nothing unless the name occurs: a bag has many statuses of other nodes.
    """
    if message[:2] != LITTLE_ENDIAN or name.encode() not in message:
        return {}
    try:
        return next((values for found, values in _statuses(message) if found == name), {})
    except (struct.error, EOFError, UnicodeDecodeError):
        return {}


def _statuses(message: bytes) -> Iterator[tuple[str, dict[str, str]]]:
    _, offset = _text(message, START + STAMP)  # frame_id
    count, offset = _length(message, offset)
    for _ in range(count):
        name, offset = _text(message, offset + 1)  # after the level
        for _field in ("message", "hardware_id"):
            _, offset = _text(message, offset)
        pairs, offset = _length(message, offset)
        values = {}
        for _pair in range(pairs):
            key, offset = _text(message, offset)
            values[key], offset = _text(message, offset)
        yield name, values


def _length(message: bytes, offset: int) -> tuple[int, int]:
    """Read an aligned length; return it and the offset after it."""
    offset += -(offset - START) % LENGTH.size
    return LENGTH.unpack_from(message, offset)[0], offset + LENGTH.size


def _text(message: bytes, offset: int) -> tuple[str, int]:
    """Read a string, which ends with a zero; return it and the offset after it."""
    length, offset = _length(message, offset)
    if offset + length > len(message):
        raise EOFError
    return message[offset : offset + length].rstrip(b"\0").decode(), offset + length
