"""Opens files of named arrays (npz, pt, HDF5) that nobody vouches for.

Nothing is unpickled beyond what torch's weights_only admits, no link leaves the file, and nothing is read that would
fill more than LARGEST bytes.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core.recording.recording import RecordingError

LARGEST = 1 << 30  # [B] of all arrays together
LARGEST_HEADER = 10_000  # [B] of one array's description in an npz
Arrays = dict[str, np.ndarray[Any, Any]]


def read_arrays(path: Path, wanted: Iterable[str]) -> Arrays:
    """The `wanted` entries that a file has, numbers and names alike, chosen by its ending.

    Raises RecordingError with one sentence for a file that is damaged, too large, or of no known kind.
    """
    reader = READERS.get(path.suffix)
    if reader is None:
        raise RecordingError(f"recording {path} ends in {path.suffix!r}; expected .rollout or {', '.join(READERS)}")
    try:
        return reader(path, set(wanted))
    except RecordingError:
        raise
    except Exception as error:  # three libraries, each with errors of its own
        raise RecordingError(
            f"recording {path} is damaged or not what its name says ({error!s:.120}); record again"
        ) from error


def _read_npz(path: Path, wanted: set[str]) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        chosen = {name: info for name, info in members.items() if name in wanted}
        _refuse_large(path, sum(info.file_size for info in chosen.values()))
        return {name: _read_npy(archive, info) for name, info in chosen.items()}


def _read_npy(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """One array. The size that its description claims must be the size that is there, before memory is taken."""
    with archive.open(info) as member:
        content = member.read(info.file_size)
    file = io.BytesIO(content)
    major, _ = np.lib.format.read_magic(file)
    describe = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = describe(file, max_header_size=LARGEST_HEADER)
    claimed = int(np.prod([int(length) for length in shape], dtype=object)) * dtype.itemsize
    if dtype.hasobject or claimed != len(content) - file.tell():
        raise ValueError(f"{info.filename} describes {claimed} bytes of {dtype} and has {len(content) - file.tell()}")
    if not claimed:
        return np.zeros(shape, dtype)
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape, order="F" if fortran else "C")


def _read_pt(path: Path, wanted: set[str]) -> Arrays:
    try:
        import torch
    except ImportError as error:
        raise RecordingError(f"reading {path} needs torch; install it, or save the rollout as npz") from error
    with zipfile.ZipFile(path) as archive:  # what torch 1.6 and later write
        _refuse_large(path, sum(info.file_size for info in archive.infolist()))
    entries = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(entries, dict):
        raise RecordingError(f"recording {path} holds a {type(entries).__name__}, expected a dict of tensors by name")
    chosen = {str(name): value for name, value in entries.items() if name in wanted}
    # A tensor may claim to be larger than what it is stored in.
    claimed = sum(value.numel() * value.element_size() for value in chosen.values() if isinstance(value, torch.Tensor))
    _refuse_large(path, claimed)
    return {name: _from_torch(value) for name, value in chosen.items()}


def _from_torch(value: Any) -> np.ndarray[Any, Any]:
    return value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)


def _read_hdf5(path: Path, wanted: set[str]) -> Arrays:
    try:
        import h5py
    except ImportError as error:
        raise RecordingError(f"reading {path} needs h5py; install it, or save the rollout as npz") from error
    with h5py.File(path, "r") as file:
        inside = [name for name in wanted if isinstance(file.get(name, getlink=True), h5py.HardLink)]
        chosen = {name: file[name] for name in inside if isinstance(file[name], h5py.Dataset)}
        for name, dataset in chosen.items():
            if dataset.is_virtual or dataset.external:
                raise ValueError(f"{name} lies in another file")
        _refuse_large(path, sum(dataset.size * max(dataset.dtype.itemsize, 16) for dataset in chosen.values()))
        arrays = {name: _from_dataset(dataset) for name, dataset in chosen.items()}
        attributes = {name: np.asarray(file.attrs[name]) for name in wanted if name in file.attrs}
        return attributes | arrays


def _from_dataset(dataset: Any) -> np.ndarray[Any, Any]:
    return np.asarray(dataset.asstr()[...] if dataset.dtype.kind == "O" else dataset[...])


def _refuse_large(path: Path, size: int) -> None:
    if size > LARGEST:
        raise RecordingError(f"recording {path} would fill {size} bytes, at most {LARGEST} are read; save a part of it")


READERS: dict[str, Callable[[Path, set[str]], Arrays]] = {
    ".npz": _read_npz,
    ".pt": _read_pt,
    ".pth": _read_pt,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
}
