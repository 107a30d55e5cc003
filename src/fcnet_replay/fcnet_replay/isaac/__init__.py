"""Reads rollouts of other simulators as runs: .rollout files (docs/isaac_gym.md), and npz and pt by a mapping."""

from __future__ import annotations

from pathlib import Path

from fcnet_core.errors import ReplayError
from fcnet_replay.isaac.arrays import read_array_file
from fcnet_replay.isaac.recording import read_rollout
from fcnet_replay.run import Run

__all__ = ["read_recording"]


def read_recording(path: str | Path, mapping: str | Path | None = None, joint_names: tuple[str, ...] = ()) -> Run:
    """Read a .rollout file, or an npz or pt file with legged_gym's names or those of a mapping (a YAML file).

    joint_names: of the robot, by default those of the recorded robot's file, or the recording's. Unpickles nothing.
    Raises ReplayError if the file is missing, damaged, too large, or has impossible values, and FcnetError if the
    mapping is unusable.
    """
    path = Path(path)
    if not path.is_file() or not path.stat().st_size:  # special files under /proc have no size, and may block
        raise ReplayError(f"there is no recording {path}, or it is empty; check the path")
    try:
        if path.suffix == ".rollout":
            return read_rollout(path, joint_names)
        return read_array_file(path, mapping, joint_names)
    except OSError as error:
        raise ReplayError(f"recording {path} cannot be read: {error.strerror or error}") from error
