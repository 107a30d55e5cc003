"""New datasets: written whole or not at all, joined of several, or divided; one shard in memory at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core import FcnetError
from fcnet_core.arrays import Mask
from fcnet_core.learning.dataset import Dataset, DatasetWriter, Shard
from fcnet_core.observation import ARRAYS
from fcnet_core.policies.registry import ArraySpec
from fcnet_core.robot import JOINT_NAMES

HALVES = ("train", "validation")
Part = tuple[int, int, int]  # an episode in a shard: its sequence, and its steps from the second up to the third number


class NewDataset:
    """Takes shards one after the other, and how they came about when the last is written."""

    def __init__(
        self,
        folder: Path,
        robot: str,
        control_rate: float,
        joint_names: tuple[str, ...] = JOINT_NAMES,
        arrays: Mapping[str, ArraySpec] = ARRAYS,
    ) -> None:
        self.robot = robot
        self.shards = self.steps = 0
        self._facts = {"robot": robot, "control_rate": control_rate, "joint_names": list(joint_names)}
        self._writer = DatasetWriter(folder, self._facts, arrays)

    def add(self, job: dict[str, Any], **arrays: npt.NDArray[Any]) -> None:
        """Write the next shard; raises FcnetError as DatasetWriter.write_shard does."""
        self._writer.write_shard(self.shards, job, **arrays)
        self.shards += 1
        self.steps += int(arrays["first"].size)

    def describe(self, description: dict[str, Any]) -> None:
        """Write the manifest with how the data came about and how much there is, which validation compares."""
        (self._writer.folder / "manifest.json").unlink()
        facts = {**self._facts, **description, "shards": self.shards, "steps": self.steps}
        DatasetWriter(self._writer.folder, facts, self._writer.arrays)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `folder` at the end, or vanishes when something went wrong.

    Raises FcnetError when there is something at `folder`: nothing is ever overwritten.
    """
    _refuse_existing(folder)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        _refuse_existing(folder)
        partial.rename(folder)
    except OSError as error:
        raise FcnetError(
            f"{folder} could not be written ({error.strerror or error}); nothing is left of it"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def merge(folders: Sequence[Path], folder: Path) -> NewDataset:
    """Write all shards of `folders` into one new folder, with all their manifests and jobs.

    Raises FcnetError when they differ in robot, joints, rate or arrays, when one is named twice, or when bags are in
    two.
    """
    if len({path.resolve() for path in folders}) < len(folders):
        raise FcnetError("a folder is named twice; to let data count more, give `fcnet train` a weight: DIR:2")
    data = Dataset(folders)
    _refuse_shared_bags(data)
    with new_folder(folder) as partial:
        merged = _like(data, partial)
        for shard in data.shards:
            merged.add({"from": _name(shard), "job": shard.job}, **shard.arrays)
        parts = [
            {"folder": path.name, "description": manifest.description}
            for path, manifest in zip(data.folders, data.manifests, strict=True)
        ]
        merged.describe({"source": "merge", "parts": parts})
    return merged


def split(source: Path, folder: Path, validation: float, seed: int) -> dict[str, NewDataset]:
    """Write FOLDER/train and FOLDER/validation: about a share `validation` of the steps, in whole episodes drawn by
    `seed`. Raises FcnetError when there are fewer than two episodes or the share is not between 0 and 1.
    """
    if not 0 < validation < 1:
        raise FcnetError(f"--validation must lie between 0 and 1, not {validation:g}")
    data = Dataset(source)
    episodes = [_episodes(shard.first) for shard in data.shards]
    lengths = [stop - start for parts in episodes for _, start, stop in parts]
    if len(lengths) < 2:
        raise FcnetError(f"{source} holds one episode only; collect more before splitting it")
    chosen = iter(_draw(lengths, validation, seed).tolist())
    with new_folder(folder) as partial:
        halves = {half: _like(data, partial / half) for half in HALVES}
        for shard, parts in zip(data.shards, episodes, strict=True):
            divided: dict[str, list[Part]] = {half: [] for half in HALVES}
            for part in parts:
                divided[HALVES[next(chosen)]].append(part)
            for half, own in divided.items():
                _copy(halves[half], shard, own)
        for half, written in halves.items():
            facts = {"source": "split", "half": half, "seed": seed, "validation": validation}
            written.describe({**facts, "of": {"folder": source.name, "description": data.manifest.description}})
    return halves


def _refuse_existing(folder: Path) -> None:
    if folder.exists() or folder.is_symlink():
        raise FcnetError(f"{folder} exists already; name another folder with -o, or delete that one")


def _like(data: Dataset, folder: Path) -> NewDataset:
    manifest = data.manifest
    return NewDataset(folder, manifest.robot, manifest.control_rate, manifest.joint_names, manifest.arrays)


def _refuse_shared_bags(data: Dataset) -> None:
    """The halves of one split may hold the same bag, other folders only with labels of another kind."""
    seen: dict[tuple[str, str], tuple[Path, Any]] = {}
    for folder, manifest in zip(data.folders, data.manifests, strict=True):
        labels, half = str(manifest.description.get("labels", "")), manifest.description.get("half")
        for fingerprint, bag in dict(_bags(manifest.description)).items():
            other, other_half = seen.setdefault((fingerprint, labels), (folder, half))
            if other != folder and half == other_half:
                raise FcnetError(f"{other} and {folder} both hold the bag {bag}; leave one out")


def _bags(description: Any) -> Iterator[tuple[str, str]]:
    """Fingerprint and name of every bag in a description, however deep it was merged or split."""
    if isinstance(description, dict):
        if "fingerprint" in description and "bag" in description:
            yield str(description["fingerprint"]), str(description["bag"])
        description = list(description.values())
    if isinstance(description, list):
        for entry in description:
            yield from _bags(entry)


def _episodes(first: Mask) -> list[Part]:
    """The episodes of a shard, in order; a sequence begins one, whatever `first` says."""
    starts = first.copy()
    starts[:, 0] = True
    return [
        (sequence, *ends)
        for sequence, begins in enumerate(starts)
        for ends in pairwise([*np.flatnonzero(begins).tolist(), len(begins)])
    ]


def _draw(lengths: list[int], share: float, seed: int) -> Mask:
    """Which episodes are for validation: at least one, never all."""
    order = np.random.default_rng([seed, 4]).permutation(len(lengths))
    steps = np.cumsum(np.array(lengths)[order])
    count = int(np.argmin(np.abs(steps - share * steps[-1]))) + 1
    chosen = np.zeros(len(lengths), dtype=np.bool_)
    chosen[order[: min(count, len(lengths) - 1)]] = True
    return chosen


def _copy(half: NewDataset, shard: Shard, parts: list[Part]) -> None:
    """Episodes that are whole sequences stay side by side; pieces of sequences follow each other in one."""
    length = shard.first.shape[1]
    whole = [part for part in parts if part[2] - part[1] == length]
    pieces = [part for part in parts if part[2] - part[1] < length]
    rows = [sequence for sequence, _, _ in whole]
    if whole:
        _add(half, shard, whole, {name: array[rows] for name, array in shard.arrays.items()})
    if pieces:
        joined = {
            name: np.concatenate([array[sequence, start:stop] for sequence, start, stop in pieces])[None]
            for name, array in shard.arrays.items()
        }
        _add(half, shard, pieces, joined)


def _add(half: NewDataset, shard: Shard, parts: list[Part], arrays: dict[str, npt.NDArray[Any]]) -> None:
    begins = np.cumsum([0, *(stop - start for _, start, stop in parts)])[:-1]
    first = np.zeros(arrays["first"].shape, dtype=np.bool_)
    first.ravel()[begins] = True
    job = {"from": _name(shard), "episodes": [list(part) for part in parts], "job": shard.job}
    half.add(job, **{**arrays, "first": first})


def _name(shard: Shard) -> str:
    return f"{shard.path.parent.name}/{shard.path.name}"
