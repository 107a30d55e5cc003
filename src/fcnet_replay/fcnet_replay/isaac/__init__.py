"""Rollouts that another simulator has recorded, read into the suite's conventions.

`read_recording(path)` takes the suite's own format (.rollout, docs/isaac_gym.md) and, by way of a mapping, the npz, pt
and HDF5 files that legged_gym users write. No file is ever unpickled, and none may ask for more memory than LARGEST.
"""

from __future__ import annotations

from pathlib import Path

from fcnet_replay.isaac.arrays import RolloutMapping, columns_from_arrays, load_mapping, read_arrays
from fcnet_replay.isaac.recording import Recording, RecordingError, RolloutColumns, recording_from_columns
from fcnet_replay.isaac.rollout import read_rollout

__all__ = ["Recording", "RecordingError", "RolloutColumns", "read_recording", "recording_from_columns"]

def read_recording(path: str | Path, mapping: str | Path | None = None) -> Recording:
    """Read a .rollout file, or an npz, pt or HDF5 file in legged_gym's terms or in those of a mapping (a YAML file).

    Raises RecordingError with one sentence for a file that is missing, damaged, too large, or cannot be.
    """
    path = Path(path)
    if not path.is_file():
        raise RecordingError(f"there is no recording {path}; check the path")
    try:
        if path.suffix == ".rollout":
            return recording_from_columns(read_rollout(path), f"recording {path}")
        meaning = load_mapping(mapping) if mapping else RolloutMapping()
        arrays = read_arrays(path, meaning.keys.values())
        return recording_from_columns(columns_from_arrays(arrays, meaning, f"recording {path}"), f"recording {path}")
    except OSError as error:
        raise RecordingError(f"recording {path} cannot be read: {error.strerror or error}") from error

