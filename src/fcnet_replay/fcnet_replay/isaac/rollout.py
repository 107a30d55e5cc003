"""Rollouts: a header frame and the state frames that follow it, in a file or over a socket."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_replay.isaac.recording import RecordingError, RolloutColumns

# The frames of a rollout: what a .rollout file is made of and what a simulator sends over a live socket.
#
# All numbers are little endian. A frame is
#
#     magic 4 B | length u32 | payload, `length` B | CRC-32 (zlib's) u32 over everything before it
#
# A header's magic is b"FCRH"; its payload is JSON in UTF-8:
#
#     {"format": "fcnet rollout", "version": 1, "robot": "aliengo", "period": 0.02,
#      "joint_names": ["FL_hip_joint", ...], "commands": ["vx", "vy", "yaw_rate"]}
#
# A state's magic is b"FCRS"; with n joints and c commands its payload is
#
#     step u64 | time f64 | episode u32 | flags u32 (bit 0: an episode begins here) | then float32:
#     joint position n, joint velocity n, root state 13, action n, target n, command c

VERSION = 1
FORMAT = "fcnet rollout"
HEADER, STATE = b"FCRH", b"FCRS"
PREFIX = struct.Struct("<4sI")
CHECKSUM = struct.Struct("<I")
OVERHEAD = PREFIX.size + CHECKSUM.size
LONGEST_HEADER = 65536
MOST_JOINTS = 64
MOST_COMMANDS = 64
MAGIC = re.compile(b"FCR[HS]")
SEARCH_COST, SEARCH_BUDGET = 4096, 16  # what looking for the next whole frame may cost, in bytes
FIRST = 1  # bit of the flags


class FrameError(ValueError):
    """Bytes that are no frame of a rollout; the message continues a sentence that begins with their source."""


@dataclass(frozen=True)
class RolloutHeader:
    """What holds for every state that follows; period [s]."""

    robot: str
    period: float
    joint_names: tuple[str, ...]
    commands: tuple[str, ...]

    @property
    def state_type(self) -> np.dtype[Any]:
        """The payload of a state frame."""
        joints, commands = len(self.joint_names), len(self.commands)
        return np.dtype(
            [
                ("step", "<u8"),
                ("time", "<f8"),
                ("episode", "<u4"),
                ("flags", "<u4"),
                ("joint_position", "<f4", (joints,)),
                ("joint_velocity", "<f4", (joints,)),
                ("root_state", "<f4", (13,)),
                ("action", "<f4", (joints,)),
                ("target", "<f4", (joints,)),
                ("command", "<f4", (commands,)),
            ]
        )


def frames(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Magic, begin and end (of the payload, in bytes) of every whole frame; damaged bytes in between are skipped.

    Raises FrameError where so much is damaged that looking on would take for ever.
    """
    place, budget = 0, SEARCH_BUDGET * (len(content) + SEARCH_COST)
    while match := MAGIC.search(content, place):
        place = match.start()
        if end := _end_of_payload(content, place):
            yield content[place : place + 4], place + PREFIX.size, end
            place = end + CHECKSUM.size
            continue
        budget -= SEARCH_COST + min(_length(content, place), LONGEST_HEADER)
        if budget < 0:
            raise FrameError("is damaged all over; restore it from another copy or record again")
        place += 1


def one_frame(datagram: bytes) -> tuple[bytes, bytes]:
    """Magic and payload of a datagram that is exactly one frame. Raises FrameError."""
    for magic, begin, end in frames(datagram):
        if begin == PREFIX.size and end + CHECKSUM.size == len(datagram):
            return magic, datagram[begin:end]
        break
    raise FrameError("is no frame of a rollout")


def parse_header(payload: bytes) -> RolloutHeader:
    """Read a header's JSON. Raises FrameError when it is of another format or version, or cannot be."""
    try:
        facts = json.loads(bytes(payload).decode())
        if facts["format"] != FORMAT:
            raise FrameError(f"has the format {facts['format']!r:.80}, expected {FORMAT!r}")
        if facts["version"] != VERSION:
            raise FrameError(f"has format version {facts['version']!r:.80}, this fcnet reads {VERSION}; update fcnet")
        header = RolloutHeader(
            robot=str(facts.get("robot", "")),
            period=float(facts["period"]),
            joint_names=_names(facts["joint_names"], MOST_JOINTS),
            commands=_names(facts["commands"], MOST_COMMANDS),
        )
    except FrameError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FrameError(f"has a header that cannot be read ({error!s:.80}); record again") from error
    if not np.isfinite(header.period):
        raise FrameError("has a period that is not finite; record again")
    return header


def parse_state(payload: bytes | memoryview, header: RolloutHeader) -> npt.NDArray[Any]:
    """The one state (1,) of a payload. Raises FrameError when its length is not the one that the header implies."""
    if len(payload) != header.state_type.itemsize:
        raise FrameError(f"has a state of {len(payload)} bytes, its header implies {header.state_type.itemsize}")
    return np.frombuffer(payload, dtype=header.state_type)


def _names(names: Any, most: int) -> tuple[str, ...]:
    if not isinstance(names, list) or len(names) > most or not all(isinstance(name, str) for name in names):
        raise FrameError(f"must give its joints and commands as lists of at most {most} names; record again")
    return tuple(name[:100] for name in names)


def _end_of_payload(content: bytes, place: int) -> int:
    """Where the payload ends of the frame that begins at `place`; 0 when that is no whole frame."""
    length = _length(content, place)
    end = place + PREFIX.size + length
    if length > LONGEST_HEADER or end + CHECKSUM.size > len(content):
        return 0
    with memoryview(content)[place:end] as checked:
        return end if zlib.crc32(checked) == CHECKSUM.unpack_from(content, end)[0] else 0


def _length(content: bytes, place: int) -> int:
    return int(PREFIX.unpack_from(content, place)[1]) if place + PREFIX.size <= len(content) else 0


# Reads a .rollout file: a header frame and the state frames that follow it, see rollout_frames.py.
#
# A file that ends in the middle of a frame, as after a crash, is read up to there; damaged frames are left out, and a
# note says how many bytes were lost.

LARGEST = 1 << 27  # [B] 128 MiB: two and a half hours of a robot at 50 Hz


def read_rollout(path: Path) -> RolloutColumns:
    """Read and check a file. Raises RecordingError with one sentence, OSError when it cannot be opened."""
    size = path.stat().st_size
    if size > LARGEST:
        raise RecordingError(f"recording {path} has {size} bytes, at most {LARGEST} are read; record in shorter pieces")
    content = path.read_bytes()
    try:
        header, states, lost = _parse(content)
    except FrameError as error:
        raise RecordingError(f"recording {path} {error}") from error
    return columns_from_states(header, states, _notes(path, lost))


def columns_from_states(header: RolloutHeader, states: npt.NDArray[Any], notes: tuple[str, ...] = ()) -> RolloutColumns:
    """States (T,) of header.state_type as columns in float64."""
    return RolloutColumns(
        robot=header.robot,
        joint_names=header.joint_names,
        command_names=header.commands,
        period=header.period,
        time=states["time"].astype(np.float64),
        first=(states["flags"] & FIRST).astype(bool),
        notes=notes,
        **{
            name: states[name].astype(np.float64)
            for name in ("joint_position", "joint_velocity", "root_state", "target", "command")
        },
    )


def _parse(content: bytes) -> tuple[RolloutHeader, npt.NDArray[Any], int]:
    """Header, states (T,), and how many bytes belong to no frame."""
    header, size, used = None, 0, 0
    payloads = bytearray()
    for magic, begin, end in frames(content):
        used += end - begin + OVERHEAD
        if magic == HEADER:
            found = parse_header(content[begin:end])
            if header is not None and found != header:
                raise FrameError(f"changes its header at byte {begin}; one file holds one recording")
            header, size = found, found.state_type.itemsize
        elif header is None or end - begin != size:
            used -= end - begin + OVERHEAD
        else:
            payloads += memoryview(content)[begin:end]
    if header is None:
        raise FrameError(
            "holds no header of a rollout; expected a file that rollout_writer.py wrote, or a mapping for it"
        )
    return header, np.frombuffer(payloads, dtype=header.state_type), len(content) - used


def _notes(path: Path, lost: int) -> tuple[str, ...]:
    if not lost:
        return ()
    return (f"{lost} bytes of {path} are damaged or cut off and were left out; the rest is whole",)
