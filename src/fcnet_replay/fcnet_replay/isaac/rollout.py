"""The frames of a rollout, in a .rollout file or sent by a live simulation.

All numbers are little endian. A frame is

    magic 4 B | length u32 | payload, `length` B | CRC-32 (zlib's) u32 over everything before it

The first frame is the header: magic b"FCRH", payload JSON as in recording.Header. A state's magic is b"FCRS"; its
payload is one row of Header.row_type.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import msgspec
import numpy as np

from fcnet_core.errors import ReplayError
from fcnet_replay.bags.contents import Problem
from fcnet_replay.isaac.recording import Header, RolloutRows, run_of_rows
from fcnet_replay.run import Run

HEADER, STATE = b"FCRH", b"FCRS"
PREFIX, CHECKSUM = struct.Struct("<4sI"), struct.Struct("<I")
LARGEST = 1 << 27  # [B] of a file, 128 MiB: two and a half hours of 12 joints at 50 Hz
LONGEST_PAYLOAD = 65536
MOST_BROKEN = 10_000  # frames; bounds the time for a file


def read_rollout(path: Path, joint_names: tuple[str, ...] = ()) -> Run:
    """Read a file, up to an incomplete last frame and without damaged frames; a problem gives the lost bytes.

    Raises ReplayError if the file is too large or has no usable rows, and OSError if it cannot be opened.
    """
    name, size = f"recording {path}", path.stat().st_size
    if size > LARGEST:
        raise ReplayError(f"{name} has {size} bytes, at most {LARGEST} are read; record in shorter pieces")
    content = path.read_bytes()
    magic, payload = frame_at(content, 0)
    if magic != HEADER:
        raise ReplayError(
            f"{name} does not start with the header of a rollout; expected a file that rollout_writer.py wrote, or "
            "another kind of file by its suffix"
        )
    header, place = parse_header(payload, name), PREFIX.size + len(payload) + CHECKSUM.size
    rows, lost, broken = bytearray(), len(content) - place, 0
    begin = PREFIX.pack(STATE, header.row_type().itemsize)  # all states have this size
    while (place := content.find(begin, place)) >= 0:
        _, payload = frame_at(content, place)
        frame_size = PREFIX.size + len(payload) + CHECKSUM.size if payload else 0
        rows += payload
        lost -= frame_size
        place += frame_size or 1
        broken += not frame_size
        if broken > MOST_BROKEN:
            raise ReplayError(f"{name} is damaged all over; restore it from another copy or record again")
    damaged = Problem("damaged", f"{lost} bytes of {path} are damaged or cut off and were left out; the rest is whole")
    return run_of_rows(header, np.frombuffer(rows, header.row_type()), name, joint_names, (damaged,) if lost else ())


def frame_at(content: bytes, place: int) -> tuple[bytes, bytes]:
    """Return magic and payload of the frame that starts at `place`; both empty without a whole frame."""
    if place + PREFIX.size > len(content):
        return b"", b""
    magic, length = PREFIX.unpack_from(content, place)
    begin, end = place + PREFIX.size, place + PREFIX.size + length
    if length > LONGEST_PAYLOAD or end + CHECKSUM.size > len(content):
        return b"", b""
    with memoryview(content)[place:end] as checked:
        whole = zlib.crc32(checked) == CHECKSUM.unpack_from(content, end)[0]
    return (magic, content[begin:end]) if whole else (b"", b"")


def parse_header(payload: bytes, name: str) -> Header:
    """Read a header's JSON. Raises ReplayError if it has another format or version, or is malformed."""
    try:
        return msgspec.json.decode(payload, type=Header)
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"{name} has a header that cannot be used ({error!s:.120}); record again") from error


def parse_state(payload: bytes, header: Header, name: str) -> RolloutRows:
    """Return the row (1,) of a payload. Raises ReplayError if its length does not match the header."""
    if len(payload) != header.row_type().itemsize:
        raise ReplayError(f"{name} has {len(payload)} bytes, its header implies {header.row_type().itemsize}")
    return np.frombuffer(payload, dtype=header.row_type())
