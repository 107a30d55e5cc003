"""Reads a .rollout file: a header frame and the state frames that follow it, see rollout_frames.py.

A file that ends in the middle of a frame, as after a crash, is read up to there; damaged frames are left out, and a
note says how many bytes were lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.recording.columns import RolloutColumns
from fcnet_core.recording.recording import RecordingError
from fcnet_core.recording.rollout_frames import FIRST, HEADER, OVERHEAD, FrameError, RolloutHeader, frames, parse_header

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
