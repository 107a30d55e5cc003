"""Reads rollouts from files of named arrays (npz, pt), with legged_gym's names or those of a mapping.

The files are not trusted: nothing is unpickled except by torch's weights_only, and arrays of more than LARGEST bytes
are rejected.
"""

from __future__ import annotations

import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from fcnet_core.errors import ReplayError
from fcnet_core.files import Positive, read_settings
from fcnet_core.rotation import xyzw_from_wxyz
from fcnet_replay.isaac.recording import FIRST, Header, RolloutRows, run_of_rows
from fcnet_replay.run import Run

LARGEST = 1 << 30  # [B] of all arrays in the file together, and of the rows made of them
UNPICKLED = (".pt", ".pth")  # by torch
REQUIRED = ("joint_position", "joint_velocity", "root_state")

Numbers = npt.NDArray[Any]
Arrays = dict[str, Numbers]  # by name in the file


class Keys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of the quantities in the file; the defaults are legged_gym's."""

    joint_position: str = "dof_pos"
    joint_velocity: str = "dof_vel"
    root_state: str = "root_states"
    target: str = "targets"
    command: str = "commands"
    done: str = "dones"
    period: str = "dt"
    joint_names: str = "dof_names"


class RolloutMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to read arrays that are (T, n) or, with several environments, (T, E, n).

    joint_names, period [s] and robot replace those of the file. commands: setpoint fields by column, "" leaves a column
    out. quaternion: order of its numbers in a root state, whose velocities are in the world frame.
    """

    robot: str = ""
    keys: Keys = Keys()
    joint_names: tuple[str, ...] = ()
    period: Positive | None = None
    env: Annotated[int, msgspec.Meta(ge=0, le=10**9)] = 0
    commands: tuple[str | None, ...] = ("vx", "vy", "yaw_rate", "")
    quaternion: Literal["xyzw", "wxyz"] = "xyzw"


def read_array_file(path: Path, mapping: str | Path | None, joint_names: tuple[str, ...]) -> Run:
    """Read one environment; mapping: a YAML file, whose defaults are as in legged_gym.

    Raises as read_recording.
    """
    chosen = read_settings(mapping, RolloutMapping, "mapping") if mapping else RolloutMapping()
    name = f"recording {path}"
    if path.suffix not in (".npz", *UNPICKLED):
        raise ReplayError(f"{name} ends in {path.suffix!r}; expected .rollout, .npz, .pt or .pth")
    try:
        arrays = _read(path, set(msgspec.structs.astuple(chosen.keys)))
    except ReplayError:
        raise
    except Exception as error:  # zipfile, NumPy and torch raise dozens of types for damage
        raise ReplayError(f"{name} is damaged or no {path.suffix} file ({error!s:.120}); record again") from error
    given = {"period": chosen.period, "joint_names": chosen.joint_names or None}
    arrays |= {getattr(chosen.keys, entry): np.asarray(it) for entry, it in given.items() if it is not None}
    with np.errstate(all="ignore"):  # run_of_rows rejects non-finite values
        return run_of_rows(*_rollout(_Source(arrays, chosen, name)), name, joint_names)


def _read(path: Path, wanted: set[str]) -> Arrays:
    with zipfile.ZipFile(path) as archive:  # also the format of torch since version 1.6
        members = {info.filename.removesuffix(".npy"): info.file_size for info in archive.infolist()}
    unpickled = path.suffix in UNPICKLED
    _refuse_large(path, sum(size for name, size in members.items() if unpickled or name in wanted))
    if not unpickled:
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in wanted.intersection(members)}
    try:
        import torch
    except ImportError as error:
        raise ReplayError(f"reading {path} needs torch; install it, or save the rollout as npz") from error
    entries = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(entries, dict):
        raise ReplayError(f"recording {path} holds a {type(entries).__name__}, expected a dict of tensors by name")
    chosen = {name: value for name, value in entries.items() if name in wanted}
    tensors = {name: value.detach() for name, value in chosen.items() if isinstance(value, torch.Tensor)}
    _refuse_large(path, sum(tensor.nbytes for tensor in tensors.values()))  # they may claim more than is stored
    return {name: np.asarray(value) for name, value in (chosen | tensors).items()}


def _refuse_large(path: Path | str, size: int) -> None:
    if size > LARGEST:
        raise ReplayError(f"recording {path} would fill {size} bytes, at most {LARGEST} are read; save a part of it")


@dataclass(frozen=True)
class _Source:
    """The arrays of one environment by their names in Keys, checked when they are taken."""

    arrays: Arrays
    mapping: RolloutMapping
    name: str

    def __contains__(self, entry: str) -> bool:
        return getattr(self.mapping.keys, entry) in self.arrays

    def take(self, entry: str, *shape: int) -> Numbers:
        """Return an entry. Raises ReplayError if it is missing, not numeric, or has another shape than a given one."""
        key, mapping = getattr(self.mapping.keys, entry), self.mapping
        if key not in self.arrays:
            raise ReplayError(f"{self.name} has no {key!r} ({entry.replace('_', ' ')}); give its name in a mapping")
        values = self.arrays[key]
        if values.ndim == 3 or (entry == "done" and values.ndim == 2):
            if mapping.env >= (count := values.shape[1]):
                raise ReplayError(f"{self.name} holds {count} environments, env {mapping.env} is none; count from 0")
            values = values[:, mapping.env]
        if values.dtype.kind not in "biuf" or (shape and values.shape != shape):
            found = f"has the type {values.dtype} and the shape {values.shape}"
            expected = f"numbers{f' of shape {shape}' if shape else ''}, or one more axis for the environments"
            raise ReplayError(f"{key!r} of {self.name} {found}; expected {expected}")
        return values


def _rollout(source: _Source) -> tuple[Header, RolloutRows]:
    """Return the arrays as header and rows of a .rollout file; an episode starts after each row that is done."""
    mapping, width = source.mapping, 0
    if "command" in source:
        width = np.atleast_1d(source.take("command")).shape[-1]
    unnamed = (f"command {column}" for column in range(len(mapping.commands), width))
    commands = [name or "" for name in (*mapping.commands, *unnamed)][:width]
    period = next(iter(source.take("period").ravel().tolist()), math.nan)
    try:
        names = source.arrays.get(mapping.keys.joint_names, np.empty(0)).ravel().astype(str).tolist()
        facts = {"robot": mapping.robot, "period": period, "joint_names": names, "commands": commands}
        header = msgspec.convert(facts, Header)
    except ValueError as error:
        raise ReplayError(f"{source.name} cannot be used: {error}; correct that in a mapping") from error
    steps, row_type = len(np.atleast_1d(source.take("joint_position"))), header.row_type("<f8")
    _refuse_large(source.name.removeprefix("recording "), steps * row_type.itemsize)
    rows = np.zeros(steps, row_type)
    rows["time"], rows["target"] = header.period * np.arange(steps), math.nan
    for entry in ("joint_position", "joint_velocity", "root_state", "target", "command"):
        if entry in source or entry in REQUIRED:
            rows[entry] = source.take(entry, steps, *row_type[entry].shape)
    if source.mapping.quaternion == "wxyz":
        rows["root_state"][:, 3:7] = xyzw_from_wxyz(rows["root_state"][:, 3:7])
    rows["flags"][:1] = FIRST
    if "done" in source:
        rows["flags"][1:] = FIRST * (source.take("done", steps)[:-1] != 0)
    return header, rows
