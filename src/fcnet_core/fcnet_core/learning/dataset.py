"""Recorded behaviour on disk: a folder of shards, each written whole or not at all and read in pieces of any size.

    FOLDER/manifest.json                robot, joint names, control rate, the arrays of a step, a free description
    FOLDER/shard-00000/NAME.npy         (S, T, ...) one array: S sequences of T steps
    FOLDER/shard-00000/first.npy        (S, T) bool, True at the first step of an episode
    FOLDER/shard-00000/job.json         how the shard was made

The manifest names the arrays of a step (ArraySpec by name). Every dataset has `action`, the labels; a quadruped's
has `observation` (70,) of observation.py beside it, and others may have `reward`, `return`, `terminal` or images.
Folders of format 1 are a quadruped's.

Plain .npy files, because every tool reads them and any part is at a known offset. A shard is complete if its folder
exists: it is written under a temporary name and renamed. Files are opened only while they are read, so that data may be
larger than memory, and there may be more shards than files that a process may open.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct, field

from fcnet_core.arrays import ArraySpec, Mask, Single
from fcnet_core.errors import FcnetError
from fcnet_core.files import read_file, write_whole
from fcnet_core.hub import hub_data, is_hub
from fcnet_core.learning.statistics import ArrayStatistics, array_statistics
from fcnet_core.observation import ARRAYS
from fcnet_core.robot import JOINT_NAMES

FORMAT_VERSION = 2
HIGHEST_RATE = 100_000.0  # [Hz]
LARGEST_JSON = 64 * 2**20  # [bytes] of a manifest or a job
FIRST = ArraySpec((), "bool")
ArrayName = Annotated[str, Meta(pattern=r"^(?!first$)[A-Za-z][\w.-]{0,99}\Z")]  # of a file in a shard's folder
IDENTITY = ("robot", "joint_names", "control_rate", "arrays")  # what folders that are used together share


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """What holds for every shard of a folder: the robot (or task), the control rate [Hz], how the data came about, the
    joints' order, and the arrays of a step. The defaults are a quadruped's.
    """

    robot: str
    control_rate: Annotated[float, Meta(gt=0, le=HIGHEST_RATE)]
    description: dict[str, Any] = {}
    joint_names: tuple[str, ...] = JOINT_NAMES
    arrays: dict[ArrayName, ArraySpec] = field(default_factory=lambda: ARRAYS)


@dataclass(frozen=True)
class ArrayFile:
    """An array (S, T, ...) in a .npy file; offset: where its values begin [bytes]."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: npt.DTypeLike

    def map(self) -> npt.NDArray[Any]:
        """The whole array, memory-mapped, read-only."""
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)

    def read(self, sequence: int, start: int, into: npt.NDArray[Any]) -> None:
        """Fill `into` (steps, ...), contiguous and of the file's type, with the steps of a sequence from `start` on.

        Raises FcnetError when the file is no longer what it was. (Reading a mapped page would end the process then.)
        """
        place = self.offset + (sequence * self.shape[1] + start) * (into.nbytes // len(into))
        try:
            file = os.open(self.path, os.O_RDONLY)
            try:
                size = os.preadv(file, [into.data.cast("B")], place)
            finally:
                os.close(file)
        except OSError as error:
            raise FcnetError(f"{self.path} cannot be read any more: {error.strerror}; restore it") from error
        if size != into.nbytes:
            raise FcnetError(f"{self.path} has become shorter since it was opened; restore it from another copy")


@dataclass(frozen=True)
class Shard:
    """The files of one shard by the name of the array, `first` among them, and the job that made it."""

    path: Path
    files: Mapping[str, ArrayFile]
    job: dict[str, Any]

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays (S, T, ...), memory-mapped until the last reference to them goes."""
        return {name: file.map() for name, file in self.files.items()}

    @property
    def observation(self) -> Single:
        """Observations (S, T, ...), where they are one array."""
        return self.files["observation"].map()

    @property
    def action(self) -> Single:
        """Labels (S, T, action)."""
        return self.files["action"].map()

    @property
    def first(self) -> Mask:
        """Where (S, T) an episode begins."""
        return self.files["first"].map()

    @property
    def sequences(self) -> tuple[int, int]:
        """How many sequences of how many steps (S, T)."""
        count, steps = self.files["first"].shape
        return count, steps

    @property
    def steps(self) -> int:
        """Number of recorded control periods."""
        return math.prod(self.sequences)


class DatasetWriter:
    """Adds shards to `folder`, one at a time; several processes may write different shards of one folder.

    The manifest's description may hold anything that JSON can. A folder begun with another manifest is refused, so a
    resumed collection cannot mix two recipes. shards, steps: how much this writer has written.
    """

    def __init__(self, folder: str | Path, manifest: Manifest) -> None:
        self.folder = Path(folder)
        self.shards = self.steps = 0
        self._manifest = msgspec.json.decode(msgspec.json.encode(manifest), type=Manifest)  # as it will be read
        if "action" not in manifest.arrays:
            raise FcnetError("a dataset must have the array `action`")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if (self.folder / "manifest.json").exists():
                _refuse_other_recipe(self.folder, self._manifest)
            else:
                _write_manifest(self.folder, self._manifest)
        except OSError as error:
            raise FcnetError(f"data cannot be written to {folder}: {error.strerror}; choose another folder") from error

    def has(self, index: int) -> bool:
        """Whether shard `index` is already complete."""
        return self._shard(index).is_dir()

    def job(self, index: int) -> dict[str, Any]:
        """How shard `index`, which is complete, was made."""
        return open_shard(self._shard(index), self._manifest.arrays).job

    def write_shard(self, index: int, job: dict[str, Any], **arrays: npt.ArrayLike) -> None:
        """Write shard `index` wholly or not at all: every array of the dataset and `first`, (S, T, ...).

        Raises FcnetError if the arrays do not fit each other or are not finite, if the shard exists, or if the disk
        is full; shards already written stay as they are.
        """
        specs = self._manifest.arrays
        wanted = {**specs, "first": FIRST}
        if odd := sorted(wanted.keys() ^ arrays.keys()):
            raise FcnetError(f"shard {index} lacks or has an unknown array {odd[0]}; give {', '.join(wanted)}")
        given = {name: np.ascontiguousarray(arrays[name], dtype=spec.dtype) for name, spec in wanted.items()}
        _check_shapes(f"shard {index}", given, specs)
        if not all(np.isfinite(array).all() for array in given.values()):
            raise FcnetError(f"shard {index} holds a value that is not finite; it was not written")
        if self.has(index):
            raise FcnetError(f"shard {index} of {self.folder} already exists; ask has() before recording it again")
        partial = self.folder / f".shard-{index:05d}.partial"
        try:
            _write_folder(partial, given, job)
            partial.rename(self._shard(index))
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise FcnetError(
                f"shard {index} could not be written to {self.folder} ({error.strerror or error}); the shards already"
                " there are intact: make room and run the same command again to continue"
            ) from error
        self.shards += 1
        self.steps += given["first"].size

    def add(self, job: dict[str, Any], **arrays: npt.ArrayLike) -> None:
        """Write the next shard of a folder that this writer alone fills."""
        self.write_shard(self.shards, job, **arrays)

    def describe(self, description: dict[str, Any]) -> None:
        """Rewrite the manifest with how the data came about and how much there is, which validation compares."""
        facts = {**description, "shards": self.shards, "steps": self.steps}
        _write_manifest(self.folder, msgspec.structs.replace(self._manifest, description=facts))

    def _shard(self, index: int) -> Path:
        return self.folder / f"shard-{index:05d}"


class Dataset:
    """The shards of one folder or several; all must be of one robot and one control rate. A folder may be the name
    hf://owner/name of a data set on the Hugging Face hub.

    Raises FcnetError if there is nothing to read, a file is truncated, or the folders do not belong together.
    """

    def __init__(self, folders: str | Path | Sequence[str | Path]) -> None:
        named = [folders] if isinstance(folders, str | Path) else folders
        self.folders = [hub_data(folder) if is_hub(folder) else Path(folder) for folder in named]
        if not self.folders:
            raise FcnetError("no data folder was named; name at least one that `fcnet collect` has written")
        self.manifests = [read_manifest(folder) for folder in self.folders]
        self.shards: list[Shard] = []
        for folder, manifest in zip(self.folders, self.manifests, strict=True):
            for name in IDENTITY:
                if (one := getattr(self.manifest, name)) != (other := getattr(manifest, name)):
                    raise FcnetError(
                        f"{self.folders[0]} and {folder} cannot be used together: their {name} differs ({one} and "
                        f"{other})"
                    )
            paths = sorted(path for path in folder.glob("shard-*") if path.is_dir())
            if not paths:
                raise FcnetError(f"{folder} holds no finished shard yet; let `fcnet collect` finish at least one")
            self.shards += [open_shard(path, self.manifest.arrays) for path in paths]

    @property
    def manifest(self) -> Manifest:
        """The first folder's manifest; robot, joints and control rate hold for all."""
        return self.manifests[0]

    @property
    def steps(self) -> int:
        """Number of recorded control periods in all shards."""
        return sum(shard.steps for shard in self.shards)

    @cached_property
    def statistics(self) -> dict[str, ArrayStatistics]:
        """Statistics of every array of float32, by name. Reads all data once."""
        arrays = {name: spec.shape for name, spec in self.manifest.arrays.items() if spec.dtype == "float32"}
        return {name: array_statistics(self.shards, name, shape) for name, shape in arrays.items()}


def read_manifest(folder: str | Path) -> Manifest:
    """Read the manifest of a data folder; FcnetError if there is none or it cannot be used."""
    path = Path(folder) / "manifest.json"
    if not path.is_file():
        raise FcnetError(f"{folder} is not a data folder (it has no manifest.json); make one with `fcnet collect`")
    try:
        facts = json.loads(read_file(path, "manifest", LARGEST_JSON))
        version = facts.pop("format_version")
        if version not in (1, FORMAT_VERSION):
            raise FcnetError(f"{folder} has data format {version}, expected {FORMAT_VERSION}; collect it again")
        return msgspec.convert(facts, Manifest)
    except FcnetError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FcnetError(f"{path} is damaged ({error}); restore it from another copy, or collect again") from error


def _refuse_other_recipe(folder: Path, wanted: Manifest) -> None:
    if (found := read_manifest(folder)) == wanted:
        return
    names = [name for name in IDENTITY if getattr(found, name) != getattr(wanted, name)]
    keys = found.description.keys() | wanted.description.keys()
    names += sorted(key for key in keys if found.description.get(key) != wanted.description.get(key))
    raise FcnetError(
        f"{folder} already holds data made with another {', '.join(names)}; choose another folder, or delete this one"
    )


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    facts = {"format_version": FORMAT_VERSION, **msgspec.to_builtins(manifest)}
    write_whole(folder / "manifest.json", (json.dumps(facts, indent=1) + "\n").encode())


def _write_folder(path: Path, arrays: dict[str, npt.NDArray[Any]], job: dict[str, Any]) -> None:
    if path.exists():  # an interrupted attempt
        shutil.rmtree(path)
    path.mkdir()
    for name, array in arrays.items():
        with (path / f"{name}.npy").open("wb") as file:  # np.save would hide the reason when the disk is full
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
            file.write(array.data)
            file.flush()
            os.fsync(file.fileno())
    write_whole(path / "job.json", (json.dumps(job, indent=1) + "\n").encode())


def _check_shapes(
    where: str, arrays: Mapping[str, npt.NDArray[Any] | ArrayFile], specs: Mapping[str, ArraySpec]
) -> None:
    steps = arrays["first"].shape
    if len(steps) != 2 or 0 in steps:
        raise FcnetError(f"{where} does not fit: expected first (S, T), found {steps}")
    for name, spec in specs.items():
        if (found := arrays[name]).shape != (*steps, *spec.shape) or found.dtype != spec.dtype:
            raise FcnetError(
                f"{where} does not fit: expected {name} as {spec.dtype} of shape {(*steps, *spec.shape)}, as first has"
                f" it, found {found.dtype} of shape {found.shape}"
            )


def open_shard(path: Path, specs: Mapping[str, ArraySpec]) -> Shard:
    """Check the files of a shard against their headers and the manifest.

    Raises FcnetError that names the file that is missing, damaged, longer than its header promises, in another
    order or of another shape or type.
    """
    try:
        files = {name: _open_array(path / f"{name}.npy") for name in ("first", *specs)}
        job = json.loads(read_file(path / "job.json", "job", LARGEST_JSON))
        if not isinstance(job, dict):
            raise ValueError("job.json is no JSON object")
    except (OSError, ValueError, EOFError, SyntaxError, RecursionError, MemoryError) as error:
        raise FcnetError(
            f"{path} is incomplete or damaged ({error}); delete that folder and run the same collection again"
        ) from error
    _check_shapes(str(path), files, specs)
    return Shard(path, files, job)


def _open_array(path: Path) -> ArrayFile:
    try:
        array = np.lib.format.open_memmap(path, mode="r")  # np.load would take archives and pickles for arrays
    except (ValueError, EOFError, SyntaxError, MemoryError) as error:
        raise ValueError(f"{path.name}: {str(error)[:120]}") from error
    if (size := path.stat().st_size) != (due := array.offset + array.nbytes):
        raise ValueError(f"{path.name} has {size} bytes where its header promises {due}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{path.name} is in column order, expected row order")
    return ArrayFile(path, array.offset, array.shape, array.dtype)
