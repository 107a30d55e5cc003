"""Rollouts that another simulator has recorded, read into the suite's conventions.

`read_recording(path)` takes the suite's own format (.rollout, docs/isaac_gym.md) and, by way of a mapping, the npz, pt
and HDF5 files that legged_gym users write. No file is ever unpickled, and none may ask for more memory than LARGEST.
"""

from fcnet_core.recording.columns import RolloutColumns
from fcnet_core.recording.reading import read_recording
from fcnet_core.recording.recording import Recording, RecordingError, recording_from_columns

__all__ = ["Recording", "RecordingError", "RolloutColumns", "read_recording", "recording_from_columns"]
