"""Rollouts as files of named arrays (npz, pt, HDF5), read in legged_gym's terms or in those of a mapping.

Nobody vouches for these files: nothing is unpickled beyond what torch's weights_only admits, no link leaves the file,
and nothing is read that would fill more than LARGEST bytes.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask
from fcnet_core.files import read_settings
from fcnet_core.rotation import matrix_from_xyzw, xyzw_from_wxyz
from fcnet_replay.errors import ReplayError
from fcnet_replay.isaac.recording import Recording, joint_order

LARGEST = 1 << 30  # [B] of all arrays together, and of one as float64
LARGEST_MAPPING = 1 << 18  # [B]
MOST_NAMES = 100

Arrays = dict[str, npt.NDArray[Any]]


class Keys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file calls each quantity; the defaults are legged_gym's names."""

    joint_position: str = "dof_pos"
    joint_velocity: str = "dof_vel"
    root_state: str = "root_states"
    action: str = "actions"
    target: str = "targets"
    command: str = "commands"
    done: str = "dones"
    period: str = "dt"
    joint_names: str = "dof_names"
    default_position: str = "default_dof_pos"
    action_scale: str = "action_scale"
    position: str = "base_pos"
    orientation: str = "base_quat"
    linear_velocity: str = "base_lin_vel"
    angular_velocity: str = "base_ang_vel"


class RolloutMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to read arrays that are (T, n) or, with several environments, (T, E, n) or (E, T, n).

    joint_names, period [s], robot and action_scale stand in for what the file does not say. commands: setpoint fields
    by column, "" for a column to leave out. Targets that the file lacks are default_position + action_scale * action.
    velocity_frame is that of linear_velocity and angular_velocity where they are arrays of their own; those inside a
    root state are always the world's.
    """

    robot: str = ""
    keys: Keys = Keys()
    joint_names: tuple[str, ...] = ()
    period: float | None = None
    env: Annotated[int, msgspec.Meta(ge=0)] = 0
    axes: Literal["time_env", "env_time"] = "time_env"
    commands: tuple[str | None, ...] = ("vx", "vy", "yaw_rate", "")
    action_scale: float | None = None
    default_position: dict[str, float] = {}
    quaternion: Literal["xyzw", "wxyz"] = "xyzw"
    velocity_frame: Literal["world", "body"] = "body"


def load_mapping(path: Path) -> RolloutMapping:
    """Read a mapping from YAML; what it leaves out is as in legged_gym. Raises ReplayError or FcnetError."""
    if path.is_file() and path.stat().st_size > LARGEST_MAPPING:
        raise ReplayError(f"mapping {path} has more than {LARGEST_MAPPING} bytes; give the path of a mapping")
    return read_settings(path, RolloutMapping, "mapping")


def read_array_file(path: Path, mapping: RolloutMapping) -> Recording:
    """Read environment mapping.env. Raises ReplayError for a file that is damaged, too large, or of no known kind."""
    name, reader = f"recording {path}", READERS.get(path.suffix)
    if reader is None:
        raise ReplayError(f"{name} ends in {path.suffix!r}; expected .rollout or {', '.join(READERS)}")
    try:
        arrays = reader(path, set(msgspec.structs.astuple(mapping.keys)))
    except ReplayError:
        raise
    except Exception as error:  # three libraries, each with errors of its own
        raise ReplayError(f"{name} is damaged or not what its name says ({error!s:.120}); record again") from error
    return _recording(_Source(arrays, mapping, name))


def _read_npz(path: Path, wanted: set[str]) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        chosen = {name: info for name, info in members.items() if name in wanted}
        _refuse_large(f"recording {path}", sum(info.file_size for info in chosen.values()))
        arrays = {}
        for name, info in chosen.items():
            with archive.open(info) as member:
                arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
        return arrays


def _read_pt(path: Path, wanted: set[str]) -> Arrays:
    try:
        import torch
    except ImportError as error:
        raise ReplayError(f"reading {path} needs torch; install it, or save the rollout as npz") from error
    with zipfile.ZipFile(path) as archive:  # what torch 1.6 and later write
        _refuse_large(f"recording {path}", sum(info.file_size for info in archive.infolist()))
    entries = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(entries, dict):
        raise ReplayError(f"recording {path} holds a {type(entries).__name__}, expected a dict of tensors by name")
    chosen = {str(name): value for name, value in entries.items() if name in wanted}
    # A tensor may claim to be larger than what it is stored in.
    _refuse_large(
        f"recording {path}", sum(value.nbytes for value in chosen.values() if isinstance(value, torch.Tensor))
    )
    return {
        name: value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        for name, value in chosen.items()
    }


def _read_hdf5(path: Path, wanted: set[str]) -> Arrays:
    try:
        import h5py
    except ImportError as error:
        raise ReplayError(f"reading {path} needs h5py; install it, or save the rollout as npz") from error
    with h5py.File(path, "r") as file:
        arrays = {name: np.asarray(file.attrs[name]) for name in wanted if name in file.attrs}
        inside = [name for name in wanted if isinstance(file.get(name, getlink=True), h5py.HardLink)]
        chosen = {name: file[name] for name in inside if isinstance(file[name], h5py.Dataset)}
        _refuse_large(
            f"recording {path}", sum(dataset.size * max(dataset.dtype.itemsize, 16) for dataset in chosen.values())
        )
        for name, dataset in chosen.items():
            if dataset.is_virtual or dataset.external:
                raise ReplayError(f"recording {path} has its {name} in another file; save it as one file")
            arrays[name] = np.asarray(dataset.asstr()[...] if dataset.dtype.kind == "O" else dataset[...])
        return arrays


READERS: dict[str, Callable[[Path, set[str]], Arrays]] = {
    ".npz": _read_npz,
    ".pt": _read_pt,
    ".pth": _read_pt,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
}


def _refuse_large(name: str, size: int) -> None:
    if size > LARGEST:
        raise ReplayError(f"{name} would fill {size} bytes, at most {LARGEST} are read; save a part of it")


class _Source:
    """The arrays of one environment, by the names in Keys."""

    def __init__(self, arrays: Arrays, mapping: RolloutMapping, name: str) -> None:
        self.arrays = arrays
        self.mapping = mapping
        self.name = name

    def __contains__(self, entry: str) -> bool:
        return getattr(self.mapping.keys, entry) in self.arrays

    def raw(self, entry: str) -> npt.NDArray[Any]:
        """An entry as it is in the file."""
        key = getattr(self.mapping.keys, entry)
        if key not in self.arrays:
            raise ReplayError(
                f"{self.name} has no {key!r} ({entry.replace('_', ' ')}); say in a mapping what it is called there"
            )
        return self.arrays[key]

    def numbers(self, entry: str, environments: int | None = None) -> Array:
        """An entry as float64; that of one environment where its axes are as many as `environments`."""
        raw, mapping = self.raw(entry), self.mapping
        if raw.ndim == environments:
            axis = 1 if mapping.axes == "time_env" else 0
            if mapping.env >= raw.shape[axis]:
                raise ReplayError(
                    f"{self.name} holds {raw.shape[axis]} environments, and env {mapping.env} is none of them; "
                    "they count from 0"
                )
            raw = raw.take(mapping.env, axis=axis)
        _refuse_large(self.name, 8 * raw.size)
        if raw.dtype.kind not in "biuf":
            raise ReplayError(f"{getattr(mapping.keys, entry)!r} of {self.name} is {raw.dtype}; expected numbers")
        return raw.astype(np.float64)

    def rows(self, entry: str, width: int | None = None) -> Array:
        """An entry as (T, n), or (T, width)."""
        rows = self.numbers(entry, environments=3)
        if rows.ndim != 2 or rows.shape[1] != (width or rows.shape[1]):
            raise ReplayError(
                f"{getattr(self.mapping.keys, entry)!r} of {self.name} has shape {rows.shape}; "
                f"expected (steps, {width or 'values'}), or three axes with the environments"
            )
        return rows

    def scalar(self, entry: str) -> float:
        """What the mapping says, else the first number in the file."""
        given: float | None = getattr(self.mapping, entry)
        if given is not None:
            return given
        return next(iter(self.numbers(entry).ravel().tolist()), math.nan)


def _recording(source: _Source) -> Recording:
    mapping, joint_position = source.mapping, source.rows("joint_position")
    steps, joint_names = len(joint_position), mapping.joint_names
    if not joint_names and "joint_names" in source:
        names = source.raw("joint_names").ravel()[:MOST_NAMES].tolist()
        joint_names = tuple(
            joint.decode(errors="replace") if isinstance(joint, bytes) else str(joint) for joint in names
        )
    joint_order(joint_names, source.name)
    period = source.scalar("period")
    command = source.rows("command") if "command" in source else np.zeros((steps, 0))
    fields = [*mapping.commands, *(f"command {column}" for column in range(len(mapping.commands), command.shape[1]))]
    kept = [column for column, field in enumerate(fields[: command.shape[1]]) if field]
    return Recording(
        robot=mapping.robot,
        joint_names=joint_names,
        command_names=tuple(str(fields[column]) for column in kept),
        period=period,
        time=period * np.arange(steps, dtype=np.float64),
        first=_first(source, steps),
        joint_position=joint_position,
        joint_velocity=source.rows("joint_velocity"),
        root_state=_root_state(source),
        target=_target(source, joint_names, joint_position.shape),
        command=command[:, kept],
    )


def _root_state(source: _Source) -> Array:
    if "root_state" in source:
        parts = np.split(source.rows("root_state", 13), (3, 7), axis=1)
    else:
        widths = {"position": 3, "orientation": 4, "linear_velocity": 3, "angular_velocity": 3}
        parts = [source.rows(entry, width) for entry, width in widths.items()]
        if len({len(part) for part in parts}) > 1:
            raise ReplayError(f"position, orientation and velocities of {source.name} do not have the same rows")
    if source.mapping.quaternion == "wxyz":
        parts[1] = xyzw_from_wxyz(parts[1])
    if "root_state" not in source and source.mapping.velocity_frame == "body":
        world_from_body = matrix_from_xyzw(parts[1])
        parts[2:] = [np.einsum("...ij,...j->...i", world_from_body, part) for part in parts[2:]]
    return np.concatenate(parts, axis=1)


def _target(source: _Source, joint_names: tuple[str, ...], shape: tuple[int, ...]) -> Array:
    """The targets there are, or what the actions ask for, or NaN."""
    if "target" in source:
        return source.rows("target")
    scaled = "action_scale" in source and source.numbers("action_scale").size == 1
    if "action" not in source or not (scaled or source.mapping.action_scale is not None):
        return np.full(shape, np.nan)
    default = source.mapping.default_position
    if missing := [joint for joint in joint_names if default and joint not in default]:
        raise ReplayError(f"the mapping's default_position lacks {', '.join(missing)}")
    position = np.array([default[joint] for joint in joint_names]) if default else source.numbers("default_position")
    if position.size != len(joint_names):
        raise ReplayError(f"{source.name} has {position.size} default positions for {len(joint_names)} joints")
    return source.scalar("action_scale") * source.rows("action") + position.ravel()


def _first(source: _Source, steps: int) -> Mask:
    """An episode begins with the first row and with each row after one that is done."""
    first = np.arange(steps) == 0
    if "done" in source:
        done = source.numbers("done", environments=2 if source.raw("done").ndim == 2 else 3)
        if done.ndim > 2 or done.size != steps:
            raise ReplayError(
                f"{source.mapping.keys.done!r} of {source.name} has shape {done.shape}; expected one flag for each of "
                f"{steps} steps"
            )
        first[1:] = done.ravel()[:-1] != 0
    return first
