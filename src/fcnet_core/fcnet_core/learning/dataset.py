"""Recorded behaviour on disk: a folder of shards that is written without risk and read without loading it whole.

    FOLDER/manifest.json                   robot, joint names, control rate, and a free description
    FOLDER/shard-00000/observation.npy     (S, T, 70) float32, S sequences of T control periods, see observation.py
    FOLDER/shard-00000/action.npy          (S, T, 12) float32, the expert's position targets [rad]: the labels
    FOLDER/shard-00000/first.npy           (S, T) bool, True at the first step of an episode
    FOLDER/shard-00000/job.json            how the shard was made

Plain .npy files because every tool reads them and NumPy maps them into memory as they are; a shard is complete as soon
as its folder exists, because it is written under another name and renamed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.files import write_whole
from fcnet_core.observation import ACTION_SIZE, OBSERVATION_SIZE
from fcnet_core.robot import JOINT_NAMES

FORMAT_VERSION = 1
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


class DatasetError(ValueError):
    """A dataset is missing, incomplete, or does not fit; the message says what to do."""


@dataclass(frozen=True)
class Manifest:
    """What holds for every shard of a folder: the robot, its joints' order, the control rate [Hz], a description."""

    robot: str
    joint_names: tuple[str, ...]
    control_rate: float
    description: dict[str, Any]


@dataclass(frozen=True)
class Shard:
    """The memory-mapped arrays of one shard, see the module's docstring, and the job that made it."""

    path: Path
    observation: FloatArray
    action: FloatArray
    first: BoolArray
    job: dict[str, Any]

    @property
    def steps(self) -> int:
        """Number of recorded control periods."""
        return int(self.first.size)


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation of every observation entry (70,) and action entry (12,), over all steps."""

    observation_mean: npt.NDArray[np.float64]
    observation_std: npt.NDArray[np.float64]
    action_mean: npt.NDArray[np.float64]
    action_std: npt.NDArray[np.float64]


class DatasetWriter:
    """Adds shards to `folder`, one at a time; several processes may write different shards of one folder.

    `description` needs "robot" (name) and "control_rate" [Hz], may name "joint_names", and may hold anything else that
    JSON can. A folder begun with another description is refused, so a resumed collection cannot mix two recipes.
    """

    def __init__(self, folder: str | Path, description: dict[str, Any]) -> None:
        self.folder = Path(folder)
        manifest = _manifest_from_description(description)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if (self.folder / "manifest.json").exists():
                _refuse_other_recipe(self.folder, manifest)
            else:
                _write_manifest(self.folder, manifest)
        except OSError as error:
            raise DatasetError(
                f"data cannot be written to {folder}: {error.strerror}; choose another folder"
            ) from error

    def has(self, index: int) -> bool:
        """Whether shard `index` is already complete."""
        return self._shard(index).is_dir()

    def write_shard(
        self, index: int, observation: npt.ArrayLike, action: npt.ArrayLike, first: npt.ArrayLike, job: dict[str, Any]
    ) -> None:
        """Write shard `index` wholly or not at all: observation (S, T, 70), action (S, T, 12) [rad], first (S, T).

        Raises DatasetError if the arrays do not fit each other or are not finite, if the shard exists, or if the disk
        is full; shards already written stay as they are.
        """
        arrays = {
            "observation": np.ascontiguousarray(observation, dtype=np.float32),
            "action": np.ascontiguousarray(action, dtype=np.float32),
            "first": np.ascontiguousarray(first, dtype=np.bool_),
        }
        _check_shapes(f"shard {index}", {name: array.shape for name, array in arrays.items()})
        if not all(np.isfinite(arrays[name]).all() for name in ("observation", "action")):
            raise DatasetError(f"shard {index} holds a value that is not finite; it was not written")
        if self.has(index):
            raise DatasetError(f"shard {index} of {self.folder} already exists; ask has() before recording it again")
        partial = self.folder / f".shard-{index:05d}.partial"
        try:
            _write_folder(partial, arrays, job)
            partial.rename(self._shard(index))
            _sync(self.folder)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise DatasetError(
                f"shard {index} could not be written to {self.folder} ({error.strerror or error}); the shards already"
                " there are intact: make room and run the same command again to continue"
            ) from error

    def _shard(self, index: int) -> Path:
        return self.folder / f"shard-{index:05d}"


class Dataset:
    """The shards of one folder or several, mapped into memory; all must be of one robot and one control rate.

    Raises DatasetError if there is nothing to read, a file is truncated, or the folders do not belong together.
    """

    def __init__(self, folders: str | Path | Sequence[str | Path]) -> None:
        self.folders = [Path(folders)] if isinstance(folders, str | Path) else [Path(folder) for folder in folders]
        if not self.folders:
            raise DatasetError("no data folder was named; name at least one that `fcnet collect` has written")
        self.manifests = [read_manifest(folder) for folder in self.folders]
        for folder, manifest in zip(self.folders, self.manifests, strict=True):
            _check_same_robot(self.folders[0], self.manifests[0], folder, manifest)
        self.shards = [shard for folder in self.folders for shard in _open_shards(folder)]

    @property
    def manifest(self) -> Manifest:
        """The first folder's manifest; robot, joints and control rate hold for all."""
        return self.manifests[0]

    @property
    def steps(self) -> int:
        """Number of recorded control periods in all shards."""
        return sum(shard.steps for shard in self.shards)

    def statistics(self) -> Statistics:
        """Mean and standard deviation over all steps, computed in float64 one shard at a time."""
        return self._statistics

    @cached_property
    def _statistics(self) -> Statistics:
        observation = _moments([shard.observation for shard in self.shards])
        action = _moments([shard.action for shard in self.shards])
        return Statistics(*observation, *action)


def read_manifest(folder: str | Path) -> Manifest:
    """Read the manifest of a data folder; DatasetError if there is none or it cannot be used."""
    path = Path(folder) / "manifest.json"
    if not path.is_file():
        raise DatasetError(f"{folder} is not a data folder (it has no manifest.json); make one with `fcnet collect`")
    try:
        facts = json.loads(path.read_text())
        version = facts.pop("format_version")
        if version != FORMAT_VERSION:
            raise DatasetError(f"{folder} has data format {version}, expected {FORMAT_VERSION}; collect it again")
        return Manifest(**{**facts, "joint_names": tuple(facts["joint_names"])})
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(f"{path} is damaged ({error}); restore it from another copy, or collect again") from error


def _manifest_from_description(description: dict[str, Any]) -> Manifest:
    rest = json.loads(json.dumps(description))
    for key in ("robot", "control_rate"):
        if key not in rest:
            raise DatasetError(f"the description of a dataset must name its {key}")
    joint_names = tuple(rest.pop("joint_names", JOINT_NAMES))
    return Manifest(rest.pop("robot"), joint_names, float(rest.pop("control_rate")), rest)


def _refuse_other_recipe(folder: Path, wanted: Manifest) -> None:
    if (found := read_manifest(folder)) == wanted:
        return
    names = [name for name in ("robot", "joint_names", "control_rate") if getattr(found, name) != getattr(wanted, name)]
    keys = found.description.keys() | wanted.description.keys()
    names += sorted(key for key in keys if found.description.get(key) != wanted.description.get(key))
    raise DatasetError(
        f"{folder} already holds data made with another {', '.join(names)}; choose another folder, or delete this one"
    )


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    facts = {"format_version": FORMAT_VERSION, **vars(manifest)}
    write_whole(folder / "manifest.json", (json.dumps(facts, indent=1) + "\n").encode())
    _sync(folder)


def _write_folder(path: Path, arrays: dict[str, npt.NDArray[Any]], job: dict[str, Any]) -> None:
    if path.exists():  # an interrupted attempt
        shutil.rmtree(path)
    path.mkdir()
    for name, array in arrays.items():
        _write_array(path / f"{name}.npy", array)
    write_whole(path / "job.json", (json.dumps(job, indent=1) + "\n").encode())
    _sync(path)


def _write_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Like np.save, which on a full disk would not say why it failed."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make renames and new files in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_shapes(where: str, shapes: dict[str, tuple[int, ...]]) -> None:
    steps = shapes["first"]
    expected = {"observation": (*steps, OBSERVATION_SIZE), "action": (*steps, ACTION_SIZE), "first": steps}
    if len(steps) != 2 or 0 in steps or shapes != expected:
        raise DatasetError(
            f"{where} does not fit: expected observation (S, T, {OBSERVATION_SIZE}), action (S, T, {ACTION_SIZE}) and"
            f" first (S, T), found {shapes['observation']}, {shapes['action']} and {shapes['first']}"
        )


def _check_same_robot(folder: Path, manifest: Manifest, other_folder: Path, other: Manifest) -> None:
    for name in ("robot", "joint_names", "control_rate"):
        if (one := getattr(manifest, name)) != (two := getattr(other, name)):
            raise DatasetError(
                f"{folder} and {other_folder} cannot be used together: their {name} differs ({one} and {two})"
            )


def _open_shards(folder: Path) -> list[Shard]:
    paths = sorted(path for path in folder.glob("shard-*") if path.is_dir())
    if not paths:
        raise DatasetError(f"{folder} holds no finished shard yet; let `fcnet collect` finish at least one")
    return [_open_shard(path) for path in paths]


def _open_shard(path: Path) -> Shard:
    try:
        arrays = {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in ("observation", "action", "first")}
        job = json.loads((path / "job.json").read_text())
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"{path} is incomplete or damaged ({error}); delete that folder and run the same collection again"
        ) from error
    _check_shapes(str(path), {name: array.shape for name, array in arrays.items()})
    return Shard(path=path, job=job, **arrays)


def _moments(arrays: list[FloatArray]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    count, total, square = 0, 0.0, 0.0
    for array in arrays:
        flat = np.asarray(array, dtype=np.float64).reshape(-1, array.shape[-1])
        count, total, square = count + len(flat), total + flat.sum(0), square + np.square(flat).sum(0)
    mean = np.asarray(total) / count
    return mean, np.sqrt(np.maximum(np.asarray(square) / count - mean**2, 0.0))
