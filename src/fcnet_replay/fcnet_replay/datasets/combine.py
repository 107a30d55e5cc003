"""Datasets joined into one, and one divided into training and validation; one shard in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core.learning.dataset import Dataset, DatasetError, Manifest, Shard
from fcnet_replay.datasets.from_bag import NewDataset, new_folder

HALVES = ("train", "validation")


@dataclass(frozen=True)
class Episode:
    """Where an episode is: the sequence of a shard, and its steps from `start` up to `stop`."""

    sequence: int
    start: int
    stop: int


def merge(folders: Sequence[Path], folder: Path) -> NewDataset:
    """Write all shards of `folders` into one new folder, with all their manifests and jobs.

    Raises DatasetError when they differ in robot, joints or rate, when one is named twice, or when bags are in two.
    """
    if len({path.resolve() for path in folders}) < len(folders):
        raise DatasetError("a folder is named twice; to let data count more, give `fcnet train` a weight: DIR:2")
    data = Dataset(list(folders))
    _refuse_shared_bags(data)
    manifest = data.manifest
    with new_folder(folder) as partial:
        merged = NewDataset(partial, manifest.robot, manifest.control_rate, manifest.joint_names)
        for shard in data.shards:
            job = {"from": _name(shard), "job": shard.job}
            merged.add(shard.observation, shard.action, shard.first, job)
        parts = [
            {"folder": path.name, "description": manifest.description}
            for path, manifest in zip(data.folders, data.manifests, strict=True)
        ]
        merged.describe({"source": "merge", "parts": parts})
    return merged


def split(source: Path, folder: Path, validation: float, seed: int) -> dict[str, NewDataset]:
    """Write FOLDER/train and FOLDER/validation: about a share `validation` of the steps, in whole episodes drawn by
    `seed`. Raises DatasetError when there are fewer than two episodes or the share is not between 0 and 1.
    """
    if not 0 < validation < 1:
        raise DatasetError(f"--validation must lie between 0 and 1, not {validation:g}")
    data = Dataset(source)
    episodes = [episodes_of(shard) for shard in data.shards]
    chosen = _draw([episode.stop - episode.start for shard in episodes for episode in shard], validation, seed, source)
    with new_folder(folder) as partial:
        halves = {half: _half(partial / half, data.manifest) for half in HALVES}
        for shard, parts in zip(data.shards, episodes, strict=True):
            here, chosen = chosen[: len(parts)], chosen[len(parts) :]
            for half, wanted in zip(HALVES, (~here, here), strict=True):
                _copy(halves[half], shard, [part for part, take in zip(parts, wanted, strict=True) if take])
        for half, written in halves.items():
            facts = {"source": "split", "half": half, "seed": seed, "validation": validation}
            written.describe({**facts, "of": {"folder": source.name, "description": data.manifest.description}})
    return halves


def episodes_of(shard: Shard) -> list[Episode]:
    """The episodes of a shard, in order; a sequence begins one, whatever it says."""
    found = []
    for sequence, first in enumerate(shard.first):
        starts = np.union1d([0], np.flatnonzero(first)).tolist()
        found += [Episode(sequence, *ends) for ends in zip(starts, [*starts[1:], len(first)], strict=True)]
    return found


def bags_of(description: Any) -> Iterator[tuple[str, str]]:
    """Fingerprint and name of every bag that a description tells of, however deep it was merged or split."""
    if isinstance(description, dict):
        if "fingerprint" in description and "bag" in description:
            yield str(description["fingerprint"]), str(description["bag"])
        description = list(description.values())
    if isinstance(description, list):
        for entry in description:
            yield from bags_of(entry)


def _refuse_shared_bags(data: Dataset) -> None:
    seen: dict[tuple[str, str], Path] = {}
    for folder, manifest in zip(data.folders, data.manifests, strict=True):
        labels = str(manifest.description.get("labels", ""))
        for fingerprint, bag in dict(bags_of(manifest.description)).items():
            other = seen.setdefault((fingerprint, labels), folder)
            halves = {str(data.manifests[data.folders.index(f)].description.get("half")) for f in (other, folder)}
            if other != folder and len(halves) < 2:
                raise DatasetError(f"{other} and {folder} both hold the bag {bag}; leave one out")


def _half(folder: Path, manifest: Manifest) -> NewDataset:
    return NewDataset(folder, manifest.robot, manifest.control_rate, manifest.joint_names)


def _draw(lengths: list[int], share: float, seed: int, source: Path) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which episodes are for validation: at least one, never all."""
    if len(lengths) < 2:
        raise DatasetError(f"{source} holds one episode only; collect more before splitting it")
    order = np.random.default_rng([seed, 4]).permutation(len(lengths))
    steps = np.cumsum(np.array(lengths)[order])
    count = int(np.argmin(np.abs(steps - share * steps[-1]))) + 1
    chosen = np.zeros(len(lengths), dtype=np.bool_)
    chosen[order[: min(count, len(lengths) - 1)]] = True
    return chosen


def _copy(half: NewDataset, shard: Shard, parts: list[Episode]) -> None:
    """Episodes that are whole sequences stay side by side; pieces of sequences follow each other in one."""
    length = shard.first.shape[1]
    whole = [part for part in parts if part.stop - part.start == length]
    pieces = [part for part in parts if part.stop - part.start < length]
    if whole:
        rows = [part.sequence for part in whole]
        half.add(shard.observation[rows], shard.action[rows], _starts(len(rows), length), _job(shard, whole))
    if pieces:
        cut = [(part.sequence, slice(part.start, part.stop)) for part in pieces]
        observation, action = (
            np.concatenate([array[place] for place in cut]) for array in (shard.observation, shard.action)
        )
        first = np.concatenate([_starts(1, part.stop - part.start)[0] for part in pieces])
        half.add(observation[None], action[None], first[None], _job(shard, pieces))


def _starts(sequences: int, steps: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    first = np.zeros((sequences, steps), dtype=np.bool_)
    first[:, 0] = True
    return first


def _job(shard: Shard, parts: list[Episode]) -> dict[str, Any]:
    return {"from": _name(shard), "episodes": [[p.sequence, p.start, p.stop] for p in parts], "job": shard.job}


def _name(shard: Shard) -> str:
    return f"{shard.path.parent.name}/{shard.path.name}"
