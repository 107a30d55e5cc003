"""The frames of a rollout, as a .rollout file holds them and a live simulation sends them one by one.

All numbers are little endian. A frame is

    magic 4 B | length u32 | payload, `length` B | CRC-32 (zlib's) u32 over everything before it

A header's magic is b"FCRH"; its payload is JSON in UTF-8:

    {"format": "fcnet rollout", "version": 1, "robot": "aliengo", "period": 0.02,
     "joint_names": ["FL_hip_joint", ...], "commands": ["vx", "vy", "yaw_rate"]}

A state's magic is b"FCRS"; with n joints and c commands its payload is

    step u64 | time f64 | episode u32 | flags u32 (bit 0: an episode begins here) | then float32:
    joint position n, joint velocity n, root state 13, action n, target n, command c
"""

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

from fcnet_replay.errors import ReplayError
from fcnet_replay.isaac.recording import Recording

VERSION = 1
FORMAT = "fcnet rollout"
HEADER, STATE = b"FCRH", b"FCRS"
MAGIC = re.compile(b"FCR[HS]")
PREFIX = struct.Struct("<4sI")
CHECKSUM = struct.Struct("<I")
FIRST = 1  # bit of the flags
LARGEST = 1 << 27  # [B] of a file, 128 MiB: two and a half hours of a robot at 50 Hz
LONGEST_PAYLOAD = 65536
MOST_NAMES = 64  # joints, or commands
SEARCH_COST, SEARCH_BUDGET = 4096, 16  # what looking for the next whole frame may cost, in bytes

States = npt.NDArray[Any]  # (T,) of Header.state_type


@dataclass(frozen=True)
class Header:
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


def read_rollout(path: Path) -> Recording:
    """Read a file. One that ends in the middle of a frame, as after a crash, is read up to there; damaged frames are
    left out, and a note says how many bytes were lost. Raises ReplayError, or OSError when it cannot be opened.
    """
    name, size = f"recording {path}", path.stat().st_size
    if size > LARGEST:
        raise ReplayError(f"{name} has {size} bytes, at most {LARGEST} are read; record in shorter pieces")
    content = path.read_bytes()
    header, lost, payloads = None, size, bytearray()
    for magic, begin, end in _frames(content, name):
        if magic == HEADER:
            found = parse_header(content[begin:end], name)
            if header is not None and found != header:
                raise ReplayError(f"{name} changes its header at byte {begin}; one file holds one recording")
            header = found
        elif header is None or end - begin != header.state_type.itemsize:
            continue
        else:
            payloads += memoryview(content)[begin:end]
        lost -= PREFIX.size + end - begin + CHECKSUM.size
    if header is None:
        raise ReplayError(
            f"{name} holds no header of a rollout; expected a file that rollout_writer.py wrote, or a mapping for it"
        )
    note = f"{lost} bytes of {path} are damaged or cut off and were left out; the rest is whole"
    return recording_of_states(header, np.frombuffer(payloads, header.state_type), (note,) if lost else ())


def recording_of_states(header: Header, states: States, notes: tuple[str, ...] = ()) -> Recording:
    """States (T,) as a recording."""
    names = ("joint_position", "joint_velocity", "root_state", "target", "command")
    return Recording(
        robot=header.robot,
        joint_names=header.joint_names,
        command_names=header.commands,
        period=header.period,
        time=states["time"].astype(np.float64),
        first=(states["flags"] & FIRST).astype(bool),
        notes=notes,
        **{name: states[name].astype(np.float64) for name in names},
    )


def parse_datagram(datagram: bytes, name: str) -> tuple[bytes, bytes]:
    """Magic and payload of a datagram that is exactly one frame. Raises ReplayError."""
    end = _end_of_payload(datagram, 0) if MAGIC.match(datagram) else 0
    if not end or end + CHECKSUM.size != len(datagram):
        raise ReplayError(f"{name} is no frame of a rollout")
    return datagram[:4], datagram[PREFIX.size : end]


def parse_header(payload: bytes, name: str) -> Header:
    """Read a header's JSON. Raises ReplayError when it is of another format or version, or cannot be."""
    try:
        facts = json.loads(payload.decode())
        if facts["format"] != FORMAT:
            raise ReplayError(f"{name} has the format {facts['format']!r:.80}, expected {FORMAT!r}")
        if facts["version"] != VERSION:
            raise ReplayError(
                f"{name} has format version {facts['version']!r:.80}, this fcnet reads {VERSION}; update fcnet"
            )
        robot, period = str(facts.get("robot", "")), float(facts["period"])
        names = [facts["joint_names"], facts["commands"]]
    except ReplayError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ReplayError(f"{name} has a header that cannot be read ({error!s:.80}); record again") from error
    for entry in names:
        if not (isinstance(entry, list) and len(entry) <= MOST_NAMES and all(isinstance(text, str) for text in entry)):
            raise ReplayError(
                f"{name} must give its joints and commands as lists of at most {MOST_NAMES} names; record again"
            )
    joints, commands = (tuple(text[:100] for text in entry) for entry in names)
    return Header(robot, period, joints, commands)


def parse_state(payload: bytes, header: Header, name: str) -> States:
    """The one state (1,) of a payload. Raises ReplayError when its length is not the one that the header implies."""
    if len(payload) != header.state_type.itemsize:
        raise ReplayError(f"{name} has {len(payload)} bytes, its header implies {header.state_type.itemsize}")
    return np.frombuffer(payload, dtype=header.state_type)


def _frames(content: bytes, name: str) -> Iterator[tuple[bytes, int, int]]:
    """Magic, begin and end (of the payload, in bytes) of every whole frame; damaged bytes in between are skipped.

    Raises ReplayError where so much is damaged that looking on would take for ever.
    """
    place, budget = 0, SEARCH_BUDGET * (len(content) + SEARCH_COST)
    while match := MAGIC.search(content, place):
        place = match.start()
        if end := _end_of_payload(content, place):
            yield content[place : place + 4], place + PREFIX.size, end
            place = end + CHECKSUM.size
            continue
        budget -= SEARCH_COST + min(_length(content, place), LONGEST_PAYLOAD)
        if budget < 0:
            raise ReplayError(f"{name} is damaged all over; restore it from another copy or record again")
        place += 1


def _end_of_payload(content: bytes, place: int) -> int:
    """Where the payload ends of the frame that begins at `place`; 0 when that is no whole frame."""
    length = _length(content, place)
    end = place + PREFIX.size + length
    if length > LONGEST_PAYLOAD or end + CHECKSUM.size > len(content):
        return 0
    with memoryview(content)[place:end] as checked:
        return end if zlib.crc32(checked) == CHECKSUM.unpack_from(content, end)[0] else 0


def _length(content: bytes, place: int) -> int:
    return int(PREFIX.unpack_from(content, place)[1]) if place + PREFIX.size <= len(content) else 0
