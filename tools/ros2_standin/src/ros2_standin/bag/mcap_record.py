"""The records of an mcap file as bytes (https://mcap.dev/spec)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum

MAGIC = b"\x89MCAP0\r\n"
MESSAGE = struct.Struct("<BQHIQQ")  # opcode, length, channel, sequence, log time, publish time [ns]
MESSAGE_FIELDS = 22  # bytes of a message's record that are not its data


class Opcode(IntEnum):
    """The kinds of records that are written here."""

    HEADER = 0x01
    FOOTER = 0x02
    SCHEMA = 0x03
    CHANNEL = 0x04
    MESSAGE = 0x05
    CHUNK = 0x06
    MESSAGE_INDEX = 0x07
    CHUNK_INDEX = 0x08
    STATISTICS = 0x0B
    METADATA = 0x0C
    METADATA_INDEX = 0x0D
    SUMMARY_OFFSET = 0x0E
    DATA_END = 0x0F


def record(opcode: Opcode, *parts: bytes) -> bytes:
    """Return a record with the joined `parts` as its content."""
    content = b"".join(parts)
    return struct.pack("<BQ", opcode, len(content)) + content


def string(text: str) -> bytes:
    """Return a text with its length before it."""
    return sized(text.encode())


def sized(content: bytes) -> bytes:
    """Return bytes with their length before them, in 32 bits."""
    return struct.pack("<I", len(content)) + content


def string_map(values: Mapping[str, str]) -> bytes:
    """Return texts by texts."""
    return sized(b"".join(string(key) + string(value) for key, value in values.items()))


def number_map(values: Mapping[int, int]) -> bytes:
    """Return 64-bit numbers by 16-bit numbers."""
    return sized(b"".join(struct.pack("<HQ", key, value) for key, value in values.items()))
