"""Finds the records of an mcap file in a block of bytes, all of their fields at once: a bag has a thousand a second."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

HEAD = 9  # [bytes] operation and length of a record
SCHEMA_OP, CHANNEL_OP, MESSAGE_OP = 3, 4, 5
MESSAGE_HEAD = 22  # [bytes] channel, sequence, two times
SMALLEST = np.zeros(256, dtype=np.int64)  # [bytes] of a record of each operation
SMALLEST[[SCHEMA_OP, CHANNEL_OP]] = 14  # those with empty texts
SMALLEST[MESSAGE_OP] = MESSAGE_HEAD
RECORD = np.dtype([("operation", "u1"), ("length", "<i8")])
MESSAGE = np.dtype(
    {"names": ["channel", "received"], "formats": ["<u2", "<i8"], "offsets": [9, 15], "itemsize": HEAD + MESSAGE_HEAD}
)
_length = struct.Struct("<Q").unpack_from
Places = npt.NDArray[np.int64]


def find_records(block: bytes, index: Places) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Messages (M, 4): channel, time of reception [ns], start and end of the content; definitions (D, 3): operation,
    start and end; and where the last whole record ends, which is the block's end when nothing is wrong.

    index: where messages are said to begin; it saves time where it is right, and may be empty or wrong.
    """
    starts, ends = _indexed(block, np.sort(index)) or _walked(block)
    operations = np.frombuffer(block, dtype=np.uint8)[starts]
    short = np.flatnonzero(ends - starts - HEAD < SMALLEST[operations])
    if len(short):
        starts, ends, operations = starts[: short[0]], ends[: short[0]], operations[: short[0]]
    message = operations == MESSAGE_OP
    definition = (operations == SCHEMA_OP) | (operations == CHANNEL_OP)
    heads = _each_place(block, MESSAGE)[starts[message]]
    content = starts[message] + HEAD + MESSAGE_HEAD
    return (
        np.column_stack([heads["channel"], heads["received"], content, ends[message]]),
        np.column_stack([operations[definition], starts[definition] + HEAD, ends[definition]]),
        int(ends[-1]) if len(ends) else 0,
    )


def _walked(block: bytes) -> tuple[Places, Places]:
    """Where the whole records begin and end."""
    starts, at, last = [], 0, len(block) - HEAD
    while at <= last:
        (length,) = _length(block, at + 1)
        if length > last - at:
            break
        starts.append(at)
        at += HEAD + length
    places = np.array([*starts, at], dtype=np.int64)
    return places[:-1], places[1:]


def _indexed(block: bytes, index: Places) -> tuple[Places, Places] | None:
    """As _walked, if the index tells each record but definitions before the first message; else None."""
    if not len(index) or index[0] < 0 or index[-1] > len(block) - HEAD:
        return None
    ends = index + HEAD + _each_place(block, RECORD)["length"][index]
    before_starts, before_ends = _walked(block[: index[0]])
    starts, ends = np.concatenate([before_starts, index]), np.concatenate([before_ends, ends])
    told = starts[0] == 0 and ends[-1] == len(block) and (starts[1:] == ends[:-1]).all()
    return (starts, ends) if told else None


def gather(block: bytes, start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The pieces of a block that begin at `start` (N,) and are `size` (N,) long, one after the other."""
    first = int(size[0]) if len(size) else 0
    if first and (size == first).all():  # nearly always, and many times faster than one by one
        return _each_place(block, np.dtype((np.void, first)))[start].view(np.uint8)
    pieces = [block[at : at + length] for at, length in zip(start.tolist(), size.tolist(), strict=True)]
    return np.frombuffer(b"".join(pieces), dtype=np.uint8)


def _each_place(block: bytes, kind: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """What there would be at every byte of the block if it were of this kind; nothing is copied before it is picked."""
    return np.ndarray(max(0, len(block) - kind.itemsize + 1), kind, block, strides=(1,))
