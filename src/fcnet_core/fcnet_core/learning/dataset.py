"""Recorded behaviour on disk: a folder of shards, written atomically and read in pieces of any size.

    FOLDER/manifest.json                robot, joint names, control rate, the arrays of a step, a free description
    FOLDER/shard-00000/NAME.npy         (S, T, ...) one array: S sequences of T steps
    FOLDER/shard-00000/first.npy        (S, T) bool, True at the first step of an episode
    FOLDER/shard-00000/job.json         how the shard was made

The manifest names the arrays of a step (ArraySpec by name). Every dataset has `action`, the labels. A walking robot's
dataset also has `observation`, the terms of its interface; others may have `reward`, `return`, `terminal` or images.
Folders of format 1 are from quadrupeds.

Plain .npy files: every tool reads them, and any part is at a known offset. A shard is written under a temporary name
and renamed: it is complete if its folder exists. Files are open only while they are read, so data may be larger than
memory and have more shards than a process may have open files.
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
from uuid import uuid4

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from fcnet_core.arrays import Array, ArraySpec, Mask, Single
from fcnet_core.errors import FcnetError
from fcnet_core.files import read_file, write_whole, writing
from fcnet_core.hub import hub_data, is_hub
from fcnet_core.observation import ARRAYS, PolicyInterface, velocity_interface
from fcnet_core.robot import Robot

FORMAT_VERSION = 2
HIGHEST_RATE = 100_000.0  # [Hz]
LARGEST_JSON = 64 * 2**20  # [bytes] of a manifest or a job
CHUNK = 2**23  # values in memory at a time, for statistics
FIRST = ArraySpec((), "bool")
ArrayName = Annotated[str, Meta(pattern=r"^(?!first$)[A-Za-z][\w.-]{0,99}\Z")]  # of a file in a shard's folder
IDENTITY = ("robot", "joint_names", "control_rate", "arrays")  # equal in folders that are used together


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """Properties of all shards of a folder: robot (or task), control rate [Hz], a free description of how the data were
    made, joint order (none for a task without a robot), and the arrays of a step. interface: what the inputs are, and
    the action; None: velocity_interface of the robot, or vectors of the arrays.
    """

    robot: str
    control_rate: Annotated[float, Meta(gt=0, le=HIGHEST_RATE)]
    description: dict[str, Any] = {}
    joint_names: tuple[str, ...] = ()
    arrays: dict[ArrayName, ArraySpec] = {}
    interface: PolicyInterface | None = None

    @classmethod
    def of(cls, interface: PolicyInterface, description: Mapping[str, Any]) -> Manifest:
        """Return the manifest of data with the inputs and the action of an interface."""
        arrays: dict[str, ArraySpec] = {**interface.spec, "action": ArraySpec((interface.values,))}
        return cls(interface.name, interface.rate, dict(description), interface.joints, arrays, interface)


def velocity_manifest(robot: Robot, rate: float, description: Mapping[str, Any] | None = None) -> Manifest:
    """Return the manifest of what a policy with the velocity interface of `robot` sees and sends at `rate` [Hz]."""
    manifest = Manifest.of(velocity_interface(robot, rate), description or {})
    return msgspec.structs.replace(manifest, interface=None)


@dataclass(frozen=True)
class ArrayFile:
    """An array (S, T, ...) in a .npy file; offset: position of the first value [bytes]."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: npt.DTypeLike

    def map(self) -> npt.NDArray[Any]:
        """Return the whole array, memory-mapped, read-only."""
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)

    def read(self, sequence: int, start: int, into: npt.NDArray[Any]) -> None:
        """Fill `into` (steps, ...), contiguous and of the file's type, with the steps of a sequence from `start`.

        Raises FcnetError if the file has become shorter or unreadable (a memory-mapped page would kill the process).
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
        """Observations (S, T, ...) of a dataset that has them as one array."""
        return self.files["observation"].map()

    @property
    def action(self) -> Single:
        """Labels (S, T, action)."""
        return self.files["action"].map()

    @property
    def first(self) -> Mask:
        """True (S, T) at the first step of an episode."""
        return self.files["first"].map()

    @property
    def steps(self) -> int:
        """Number of recorded control periods."""
        return math.prod(self.files["first"].shape)


class DatasetWriter:
    """Adds shards to `folder`, one at a time; several processes may write different shards of one folder.

    A folder with another manifest is refused, so that a resumed collection cannot mix two recipes. shards, steps:
    number of shards and control periods that this writer has written.
    """

    def __init__(self, folder: str | Path, manifest: Manifest) -> None:
        self.folder = Path(folder)
        self.shards = self.steps = 0
        self._manifest = msgspec.json.decode(msgspec.json.encode(manifest), type=Manifest)  # as it will be read
        if "action" not in manifest.arrays:
            raise FcnetError("a dataset must have the array `action`")
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / "manifest.json").exists():
                self._write_manifest(self._manifest)
        own, found = self._manifest, read_manifest(self.folder)
        names = [name for name in (*IDENTITY, "interface") if getattr(found, name) != getattr(own, name)]
        keys = found.description.keys() | own.description.keys()
        names += sorted(key for key in keys if found.description.get(key) != own.description.get(key))
        if names:
            other = ", ".join(names)
            raise FcnetError(f"{self.folder} has data made with another {other}; name another folder, or delete it")

    def has(self, index: int) -> bool:
        """Return whether shard `index` is complete."""
        return self._shard(index).is_dir()

    def job(self, index: int) -> dict[str, Any]:
        """Return the job of shard `index`, which must be complete."""
        return open_shard(self._shard(index), self._manifest.arrays).job

    def write_shard(self, index: int, job: dict[str, Any], **arrays: npt.ArrayLike) -> None:
        """Write shard `index` atomically: every array of the dataset and `first`, (S, T, ...).

        Raises FcnetError if shapes do not match or a value is not finite, if the shard exists, or if the disk is full;
        existing shards stay unchanged.
        """
        specs = self._manifest.arrays
        expected = {**specs, "first": FIRST}
        if odd := sorted(expected.keys() ^ arrays.keys()):
            raise FcnetError(f"shard {index} lacks or has an unknown array {odd[0]}; give {', '.join(expected)}")
        given = {name: np.ascontiguousarray(arrays[name], dtype=spec.dtype) for name, spec in expected.items()}
        _check_shapes(f"shard {index}", given, specs)
        if not all(np.isfinite(array).all() for array in given.values()):
            raise FcnetError(f"shard {index} holds a value that is not finite; it was not written")
        if self.has(index):
            raise FcnetError(f"shard {index} of {self.folder} already exists; ask has() before recording it again")
        partial = self.folder / f".shard-{index:05d}.{uuid4().hex}.partial"  # another process may write the same shard
        remedy = "mend that and run the same command again: the shards already there are intact"
        with writing(self._shard(index), remedy):
            try:
                partial.mkdir()
                for name, array in given.items():  # np.save would hide that the disk is full
                    with (partial / f"{name}.npy").open("wb") as file:
                        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
                        file.write(array.data)
                        file.flush()
                        os.fsync(file.fileno())
                _write_json(partial / "job.json", job)
                partial.rename(self._shard(index))
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        for attempt in self.folder.glob(f".shard-{index:05d}.*"):  # interrupted, or on a machine that a cluster gave up
            shutil.rmtree(attempt, ignore_errors=True)
        self.shards += 1
        self.steps += given["first"].size

    def add(self, job: dict[str, Any], **arrays: npt.ArrayLike) -> None:
        """Write the next shard of a folder that has no other writer."""
        self.write_shard(self.shards, job, **arrays)

    def describe(self, description: dict[str, Any]) -> None:
        """Rewrite the manifest with this description and the number of shards and steps, for validation."""
        facts = {**description, "shards": self.shards, "steps": self.steps}
        self._write_manifest(msgspec.structs.replace(self._manifest, description=facts))

    def _write_manifest(self, manifest: Manifest) -> None:
        facts = {"format_version": FORMAT_VERSION, **msgspec.to_builtins(manifest)}
        if manifest.interface is None:
            del facts["interface"]
        _write_json(self.folder / "manifest.json", facts)

    def _shard(self, index: int) -> Path:
        return self.folder / f"shard-{index:05d}"


@dataclass(frozen=True)
class ArrayStatistics:
    """Mean, standard deviation, minimum and maximum of each element of an array, over all steps."""

    mean: Array
    std: Array
    lowest: Array
    highest: Array


class Dataset:
    """The shards of one or more folders with the same robot, joints, control rate and arrays. A folder may be the name
    hf://owner/name of a dataset on the Hugging Face hub.

    Raises FcnetError if there is no complete shard, a file is damaged, or the folders differ in IDENTITY.
    """

    def __init__(self, folders: str | Path | Sequence[str | Path]) -> None:
        named = [folders] if isinstance(folders, str | Path) else folders
        self.folders = [hub_data(folder) if is_hub(folder) else Path(folder) for folder in named]
        if not self.folders:
            raise FcnetError("no data folder was named; name at least one that `fcnet collect` has written")
        self.manifests = [read_manifest(folder) for folder in self.folders]
        self.shards: list[Shard] = []
        for folder, manifest in zip(self.folders, self.manifests, strict=True):
            known = self.manifest.interface is not None and manifest.interface is not None
            for name in (*IDENTITY, *(("interface",) if known else ())):
                if (one := getattr(self.manifest, name)) != (other := getattr(manifest, name)):
                    both = f"{self.folders[0]} and {folder}"
                    raise FcnetError(f"{both} cannot be used together: their {name} differs ({one} and {other})")
            paths = sorted(path for path in folder.glob("shard-*") if path.is_dir())
            if not paths:
                raise FcnetError(f"{folder} holds no finished shard yet; let `fcnet collect` finish at least one")
            if (promised := manifest.description.get("shards", len(paths))) != len(paths):
                raise FcnetError(
                    f"{folder} holds {len(paths)} shards, manifest.json promises {promised}; copy it again"
                )
            self.shards += [open_shard(path, self.manifest.arrays) for path in paths]

    @property
    def manifest(self) -> Manifest:
        """The manifest of the first folder; all folders have equal IDENTITY."""
        return self.manifests[0]

    @property
    def steps(self) -> int:
        """Number of recorded control periods in all shards."""
        return sum(shard.steps for shard in self.shards)

    @cached_property
    def statistics(self) -> dict[str, ArrayStatistics]:
        """Statistics of each float32 array, by name. Reads all data once, in chunks.

        Raises FcnetError that names a file with a value that is not finite.
        """
        arrays = self.manifest.arrays.items()
        return {name: self._statistics(name, spec.shape) for name, spec in arrays if spec.dtype == "float32"}

    def _statistics(self, name: str, shape: tuple[int, ...]) -> ArrayStatistics:
        size = math.prod(shape)
        total, square = np.zeros(size), np.zeros(size)
        lowest, highest = np.full(size, np.inf), np.full(size, -np.inf)
        for shard in self.shards:
            rows: npt.NDArray[Any] = shard.files[name].map().reshape(-1, size)
            for start in range(0, len(rows), step := max(1, CHUNK // size)):
                chunk = rows[start : start + step].astype(np.float64)
                total += chunk.sum(0)
                lowest, highest = np.minimum(lowest, chunk.min(0)), np.maximum(highest, chunk.max(0))
                square += np.square(chunk, out=chunk).sum(0)
            if not np.isfinite(total).all():
                where = f"`fcnet dataset validate {shard.path.parent}` says where; make the shard again"
                raise FcnetError(f"{shard.files[name].path} holds a value that is not finite; {where}")
        mean = total / self.steps
        std = np.sqrt(np.maximum(square / self.steps - mean**2, 0.0))
        return ArrayStatistics(*(values.reshape(shape) for values in (mean, std, lowest, highest)))


def read_manifest(folder: str | Path) -> Manifest:
    """Read the manifest of a data folder. Raises FcnetError if it is missing, damaged or of an unknown format."""
    path = Path(folder) / "manifest.json"
    if not path.is_file():
        raise FcnetError(f"{folder} is not a data folder (it has no manifest.json); make one with `fcnet collect`")
    try:
        facts = json.loads(read_file(path, "manifest", LARGEST_JSON))
        version = facts.pop("format_version")
        if version not in (1, FORMAT_VERSION):
            raise FcnetError(f"{folder} has data format {version}, expected {FORMAT_VERSION}; collect it again")
        if version == 1:  # of quadrupeds, whose arrays were the only ones
            facts.setdefault("arrays", msgspec.to_builtins(ARRAYS))
        return msgspec.convert(facts, Manifest)
    except FcnetError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FcnetError(f"{path} is damaged ({error}); restore it from another copy, or collect again") from error


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


def _check_shapes(
    where: str, arrays: Mapping[str, npt.NDArray[Any] | ArrayFile], specs: Mapping[str, ArraySpec]
) -> None:
    steps = arrays["first"].shape
    if len(steps) != 2 or 0 in steps:
        raise FcnetError(f"{where} does not fit: expected first (S, T), found {steps}")
    for name, spec in specs.items():
        if (found := arrays[name]).shape != (*steps, *spec.shape) or found.dtype != spec.dtype:
            expected = f"{spec.dtype} of shape {(*steps, *spec.shape)}"
            other = f"{found.dtype} of shape {found.shape}"
            raise FcnetError(f"{where} does not fit: expected {name} as {expected}, as first has it, found {other}")


def open_shard(path: Path, specs: Mapping[str, ArraySpec]) -> Shard:
    """Open a shard and check its files against their headers and the manifest.

    Raises FcnetError that names a missing or damaged file, or one of another size, order, shape or type.
    """
    try:
        files = {name: _open_array(path / f"{name}.npy") for name in ("first", *specs)}
        job = json.loads(read_file(path / "job.json", "job", LARGEST_JSON))
        if not isinstance(job, dict):
            raise ValueError("job.json is no JSON object")
    except (OSError, ValueError, EOFError, SyntaxError, RecursionError, MemoryError) as error:
        remedy = "delete that folder and run the same collection again"
        raise FcnetError(f"{path} is incomplete or damaged ({error}); {remedy}") from error
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
