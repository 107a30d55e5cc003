"""Rollouts as files of named arrays (npz, pt, HDF5), read as a mapping says."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from fcnet_core.rotation import matrix_from_xyzw, xyzw_from_wxyz
from fcnet_replay.isaac.recording import RecordingError, RolloutColumns, joint_order

# Opens files of named arrays (npz, pt, HDF5) that nobody vouches for.
#
# Nothing is unpickled beyond what torch's weights_only admits, no link leaves the file, and nothing is read that
# would fill more than LARGEST bytes.

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


# A mapping: how the arrays of somebody else's rollout are called and meant.

# What a rollout may bring: the names that legged_gym's environments use for it.
LEGGED_GYM_KEYS = {
    "joint_position": "dof_pos",
    "joint_velocity": "dof_vel",
    "root_state": "root_states",
    "action": "actions",
    "target": "targets",
    "command": "commands",
    "done": "dones",
    "period": "dt",
    "joint_names": "dof_names",
    "default_position": "default_dof_pos",
    "action_scale": "action_scale",
    "position": "base_pos",
    "orientation": "base_quat",
    "linear_velocity": "base_lin_vel",
    "angular_velocity": "base_ang_vel",
}
AXES = ("time_env", "env_time")
QUATERNIONS = ("xyzw", "wxyz")
FRAMES = ("world", "body")
LARGEST_MAPPING = 1 << 18  # [B]


@dataclass(frozen=True)
class RolloutMapping:
    """How to read arrays that are (T, n) or, with several environments, (T, E, n) or (E, T, n).

    keys: what the file calls each entry of LEGGED_GYM_KEYS. joint_names, period [s], robot and action_scale stand in
    for what the file does not say. commands: setpoint fields by column, "" for a column to leave out. Targets that the
    file lacks are default_position + action_scale * action. velocity_frame is that of linear_velocity and
    angular_velocity where they are arrays of their own; those inside a root state are always the world's.
    """

    robot: str = ""
    keys: Mapping[str, str] = field(default_factory=lambda: dict(LEGGED_GYM_KEYS))
    joint_names: tuple[str, ...] = ()
    period: float | None = None
    env: int = 0
    axes: str = "time_env"
    commands: tuple[str, ...] = ("vx", "vy", "yaw_rate", "")
    action_scale: float | None = None
    default_position: Mapping[str, float] = field(default_factory=dict)
    quaternion: str = "xyzw"
    velocity_frame: str = "body"

    def __post_init__(self) -> None:
        for name, known in (("axes", AXES), ("quaternion", QUATERNIONS), ("velocity_frame", FRAMES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose {' or '.join(known)}")
        if unknown := sorted(set(self.keys) - set(LEGGED_GYM_KEYS)):
            raise ValueError(f"keys has unknown entries {', '.join(unknown)}; known: {', '.join(LEGGED_GYM_KEYS)}")
        if self.env < 0:
            raise ValueError(f"env is {self.env}; environments count from 0")


def load_mapping(path: str | Path) -> RolloutMapping:
    """Read a mapping from YAML; what it leaves out is as in legged_gym. Raises RecordingError with one sentence."""
    path = Path(path)
    if not path.is_file() or path.stat().st_size > LARGEST_MAPPING:
        raise RecordingError(f"there is no mapping {path} of a reasonable size; give the path of a YAML file")
    try:
        entries = yaml.safe_load(path.read_text()) or {}
        if unknown := sorted(set(entries) - {entry.name for entry in fields(RolloutMapping)}):
            known = ", ".join(entry.name for entry in fields(RolloutMapping))
            raise ValueError(f"unknown entries {', '.join(map(str, unknown))}; known: {known}")
        return RolloutMapping(**_typed(entries))
    except (ValueError, TypeError, AttributeError, RecursionError, yaml.YAMLError) as error:
        raise RecordingError(f"mapping {path} cannot be used: {error}") from error


def _typed(entries: dict[str, Any]) -> dict[str, Any]:
    typed = dict(entries)
    if "keys" in typed:
        typed["keys"] = LEGGED_GYM_KEYS | {str(name): str(key) for name, key in typed["keys"].items()}
    for name in ("joint_names", "commands"):
        if name in typed:
            typed[name] = tuple("" if entry is None else str(entry) for entry in typed[name])
    for name in ("period", "action_scale"):
        if typed.get(name) is not None:
            typed[name] = float(typed[name])
    if "env" in typed:
        typed["env"] = int(typed["env"])
    if "default_position" in typed:
        typed["default_position"] = {str(joint): float(angle) for joint, angle in typed["default_position"].items()}
    return typed


# Turns the named arrays of somebody else's rollout into columns, as a mapping says.

Array = npt.NDArray[np.float64]
MOST_ROWS = 4_000_000  # 22 hours at 50 Hz


def columns_from_arrays(arrays: Arrays, mapping: RolloutMapping, name: str) -> RolloutColumns:
    """Columns of environment mapping.env; `name` is what error sentences call the file. Raises RecordingError."""
    source = _Source(arrays, mapping, name)
    joint_position = source.rows("joint_position")
    steps = len(joint_position)
    joint_names = source.joint_names()
    joint_order(joint_names, name)
    period = source.period()
    command = source.rows("command") if source.has("command") else np.zeros((steps, 0))
    fields = (*mapping.commands, *[f"command {column}" for column in range(len(mapping.commands), command.shape[1])])
    kept = [column for column in range(command.shape[1]) if fields[column]]
    return RolloutColumns(
        robot=mapping.robot,
        joint_names=joint_names,
        command_names=tuple(fields[column] for column in kept),
        period=period,
        time=np.asarray(np.arange(steps) * period, dtype=np.float64),
        first=_first(source, steps),
        joint_position=joint_position,
        joint_velocity=source.rows("joint_velocity"),
        root_state=_root_state(source),
        target=_target(source, joint_names, joint_position.shape),
        command=command[:, kept],
    )


class _Source:
    """The arrays of one environment, by the suite's names for them."""

    def __init__(self, arrays: Arrays, mapping: RolloutMapping, name: str) -> None:
        self.arrays = arrays
        self.mapping = mapping
        self.name = name

    def has(self, entry: str) -> bool:
        return self.mapping.keys[entry] in self.arrays

    def raw(self, entry: str) -> np.ndarray[Any, Any]:
        key = self.mapping.keys[entry]
        if key not in self.arrays:
            raise RecordingError(
                f"{self.name} has no {key!r} ({entry.replace('_', ' ')}); say in a mapping what it is called there"
            )
        return self.arrays[key]

    def numbers(self, entry: str) -> Array:
        raw = self.raw(entry)
        if raw.dtype.kind not in "biuf":
            raise RecordingError(f"{self.mapping.keys[entry]!r} of {self.name} is {raw.dtype}; expected numbers")
        return raw.astype(np.float64)

    def rows(self, entry: str) -> Array:
        """An entry as (T, n)."""
        raw = self.raw(entry)
        if raw.ndim == 3:
            axis = 1 if self.mapping.axes == "time_env" else 0
            raw = raw.take(self._env(raw.shape[axis]), axis=axis)
        if raw.ndim != 2 or len(raw) > MOST_ROWS or raw.dtype.kind not in "biuf":
            raise RecordingError(
                f"{self.mapping.keys[entry]!r} of {self.name} is {raw.dtype} of shape {raw.shape}; "
                "expected numbers (steps, values), or three axes with the environments"
            )
        return raw.astype(np.float64)

    def flags(self, entry: str, steps: int) -> npt.NDArray[np.bool_]:
        """An entry as (T,): one flag per step, and per environment where there are several."""
        raw: np.ndarray[Any, Any] = self.numbers(entry)
        raw = raw[..., 0] if raw.ndim == 3 else raw
        if raw.ndim == 2:
            axis = 1 if self.mapping.axes == "time_env" else 0
            raw = raw.take(self._env(raw.shape[axis]), axis=axis)
        if raw.shape != (steps,):
            raise RecordingError(
                f"{self.mapping.keys[entry]!r} of {self.name} has shape {raw.shape}; expected one flag for each of "
                f"{steps} steps"
            )
        return raw != 0

    def joint_names(self) -> tuple[str, ...]:
        if self.mapping.joint_names or not self.has("joint_names"):
            return self.mapping.joint_names
        raw = self.raw("joint_names").ravel()
        return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in raw[:100].tolist())

    def period(self) -> float:
        if self.mapping.period is not None:
            return self.mapping.period
        return float(self.numbers("period").ravel()[0]) if self.numbers("period").size else float("nan")

    def _env(self, count: int) -> int:
        if self.mapping.env >= count:
            raise RecordingError(
                f"{self.name} holds {count} environments, and env {self.mapping.env} is none of them; they count from 0"
            )
        return self.mapping.env


def _root_state(source: _Source) -> Array:
    if source.has("root_state"):
        root = source.rows("root_state").copy()
        if root.shape[1] != 13:
            raise RecordingError(f"the root states of {source.name} have {root.shape[1]} columns; expected 13")
        root[:, 3:7] = _xyzw(source, root[:, 3:7])
        return root
    parts = [source.rows(part) for part in ("position", "orientation", "linear_velocity", "angular_velocity")]
    if [part.shape for part in parts] != [(len(parts[0]), width) for width in (3, 4, 3, 3)]:
        raise RecordingError(f"position, orientation and velocities of {source.name} do not have 3, 4, 3 and 3 columns")
    parts[1] = _xyzw(source, parts[1])
    if source.mapping.velocity_frame == "body":
        world_from_body = matrix_from_xyzw(parts[1])
        parts[2:] = [np.einsum("...ij,...j->...i", world_from_body, part) for part in parts[2:]]
    return np.concatenate(parts, axis=1)


def _xyzw(source: _Source, quaternion: Array) -> Array:
    return quaternion if source.mapping.quaternion == "xyzw" else xyzw_from_wxyz(quaternion)


def _target(source: _Source, joint_names: tuple[str, ...], shape: tuple[int, ...]) -> Array:
    """The targets there are, or what the actions ask for, or NaN."""
    if source.has("target"):
        return source.rows("target")
    scale = source.mapping.action_scale
    if scale is None and source.has("action_scale") and (found := source.numbers("action_scale")).size == 1:
        scale = float(found.ravel()[0])
    if scale is None or not source.has("action"):
        return np.full(shape, np.nan)
    return scale * source.rows("action") + _default_position(source, joint_names)


def _default_position(source: _Source, joint_names: tuple[str, ...]) -> Array:
    given = source.mapping.default_position
    if given:
        if missing := [joint for joint in joint_names if joint not in given]:
            raise RecordingError(f"the mapping's default_position lacks {', '.join(missing)}")
        return np.array([given[joint] for joint in joint_names])
    position = source.numbers("default_position").ravel()
    if position.shape != (len(joint_names),):
        raise RecordingError(f"{source.name} has {len(position)} default positions for {len(joint_names)} joints")
    return position


def _first(source: _Source, steps: int) -> npt.NDArray[np.bool_]:
    """An episode begins with the first row and with each row after one that is done."""
    first = np.zeros(steps, dtype=bool)
    first[:1] = True
    if source.has("done"):
        first[1:] = source.flags("done", steps)[:-1]
    return first
