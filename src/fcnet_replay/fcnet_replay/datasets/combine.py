"""Merges and splits datasets, with one shard in memory at a time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core.arrays import Mask
from fcnet_core.errors import FcnetError
from fcnet_core.files import new_folder
from fcnet_core.learning.dataset import Dataset, DatasetWriter, Shard
from fcnet_replay.datasets.summary import episode_starts


def merge(folders: Sequence[Path], folder: Path) -> DatasetWriter:
    """Write all shards of `folders` into the new dataset `folder`, with their manifests and jobs.

    Raises FcnetError if they differ in robot, joints, rate or arrays, or if a folder is named twice.
    """
    if len({path.resolve() for path in folders}) < len(folders):
        raise FcnetError("a folder is named twice; to let data count more, give `fcnet train` a weight: DIR:2")
    data = Dataset(folders)
    with new_folder(folder) as partial:
        merged = DatasetWriter(partial, data.manifest)
        for shard in data.shards:
            merged.add(_job(shard), **shard.arrays)
        sources = zip(data.folders, data.manifests, strict=True)
        parts = [{"folder": path.name, "description": manifest.description} for path, manifest in sources]
        merged.describe({"source": "merge", "parts": parts})
    return merged


def split(source: Path, folder: Path, validation: float, seed: int) -> dict[str, DatasetWriter]:
    """Write FOLDER/train and FOLDER/validation: about a share `validation` of the steps, in whole episodes drawn by
    `seed`. Raises FcnetError if there is only one episode or the share is not between 0 and 1.
    """
    if not 0 < validation < 1:
        raise FcnetError(f"--validation must lie between 0 and 1, not {validation:g}")
    data = Dataset(source)
    begins = [episode_starts(shard) for shard in data.shards]
    lengths = np.concatenate([np.diff(np.append(np.flatnonzero(first), first.size)) for first in begins])
    if len(lengths) < 2:
        raise FcnetError(f"{source} holds one episode only; collect more before splitting it")
    order = np.random.default_rng([seed, 4]).permutation(len(lengths))
    steps = np.cumsum(lengths[order])
    count = int(np.argmin(np.abs(steps - validation * steps[-1]))) + 1
    chosen_episodes = np.zeros(len(lengths), dtype=np.bool_)
    chosen_episodes[order[: min(count, len(lengths) - 1)]] = True  # at least one, never all
    drawn = np.split(chosen_episodes, np.cumsum([first.sum() for first in begins])[:-1])
    with new_folder(folder) as partial:
        halves = {half: DatasetWriter(partial / half, data.manifest) for half in ("train", "validation")}
        for shard, first, chosen in zip(data.shards, begins, drawn, strict=True):
            for_validation = chosen[np.cumsum(first) - 1].reshape(first.shape)
            _copy(halves["train"], shard, first, ~for_validation)
            _copy(halves["validation"], shard, first, for_validation)
        for half, written in halves.items():
            facts = {"source": "split", "half": half, "seed": seed, "validation": validation}
            written.describe({**facts, "of": {"folder": source.name, "description": data.manifest.description}})
    return halves


def _job(shard: Shard) -> dict[str, Any]:
    return {"from": f"{shard.path.parent.name}/{shard.path.name}", "job": shard.job}


def _copy(half: DatasetWriter, shard: Shard, first: Mask, chosen: Mask) -> None:
    """Copy the chosen steps (S, T), which are whole episodes. Episodes that fill a sequence stay sequences; shorter
    episodes are joined into one sequence.
    """
    arrays = {**shard.arrays, "first": first}
    whole = chosen.all(axis=1) & (first.sum(axis=1) == 1)
    pieces = chosen & ~whole[:, None]
    if whole.any():
        half.add(_job(shard), **{name: array[whole] for name, array in arrays.items()})
    if pieces.any():
        half.add(_job(shard), **{name: array[pieces][None] for name, array in arrays.items()})
