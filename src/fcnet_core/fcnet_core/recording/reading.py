"""Reads a recording of any kind."""

from __future__ import annotations

from pathlib import Path

from fcnet_core.recording.array_files import read_arrays
from fcnet_core.recording.array_rollout import columns_from_arrays
from fcnet_core.recording.mapping import RolloutMapping, load_mapping
from fcnet_core.recording.recording import Recording, RecordingError, recording_from_columns
from fcnet_core.recording.rollout_file import read_rollout


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
