"""Crops: short sequences sampled from recorded behaviour for training, read from disk on demand."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask, Rows, Single
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import FIRST, Dataset

ALL = slice(None)


@dataclass(frozen=True)
class Batch:
    """Crops of recorded behaviour: arrays (B, T, ...) by name, and valid (B, T) float32: 0 once another episode has
    started in the crop, because the steps before it are not its past.
    """

    arrays: dict[str, npt.NDArray[Any]]
    valid: Single


class CropSampler:
    """Samples crops of `length` steps of the named arrays; `held_out_share` of the sequences are for validation.

    weights: one per data folder; a step of a folder with weight 2 is sampled twice as often as one with weight 1.
    The held-out sequences of a folder depend only on `seed`: a resumed run has the same ones, and a run that continues
    from its policy with further folders (DAgger) is not validated on that policy's training data.
    Several processes sample the same crops of a batch, and each reads its `share` of them.
    """

    def __init__(
        self,
        data: Dataset,
        names: Iterable[str],
        weights: list[float],
        length: int,
        held_out_share: float,
        episode_start_share: float,
        seed: int,
    ) -> None:
        self._start_share = episode_start_share
        self._shards = data.shards
        specs = {name: data.manifest.arrays[name] for name in names} | {"first": FIRST}
        self._steps = {name: ((length, *spec.shape), np.dtype(spec.dtype)) for name, spec in specs.items()}
        folder_weight = dict(zip(data.folders, weights, strict=True))
        shard_weight = np.array([folder_weight[shard.path.parent] for shard in data.shards])
        shapes = [shard.first.shape for shard in data.shards]
        rows = [(s, q, 0, steps - length + 1) for s, (count, steps) in enumerate(shapes) for q in range(count)]
        sequences = np.array([row for row in rows if row[3] > 0], dtype=np.int64)
        if not len(sequences):
            raise FcnetError(f"no recorded sequence is as long as a crop of {length} steps; use a smaller crop")
        folders = np.array([data.folders.index(shard.path.parent) for shard in data.shards])[sequences[:, 0]]
        held_out = _held_out(folders, held_out_share, seed)
        steps = sequences[:, 3] + length - 1
        self.held_out_steps, self.training_steps = int(steps[held_out].sum()), int(steps[~held_out].sum())
        self._training = _Places(sequences[~held_out], shard_weight)
        self._held_out = _Places(sequences[held_out], shard_weight)
        self._starts = _Places(self._episode_starts(sequences[~held_out]), shard_weight)

    def draw(self, rng: np.random.Generator, batch: int, share: slice = ALL) -> Batch:
        """Sample `batch` crops for one optimiser step, and return the `share` of them."""
        places = self._training.draw(rng, batch)
        if len(self._starts.rows) and self._start_share > 0:
            at_start = rng.random(batch) < self._start_share
            places[at_start] = self._starts.draw(rng, int(at_start.sum()))
        return self._read(places[share])

    def held_out(self, crops: int, batch: int, seed: int, share: slice = ALL) -> Iterator[Batch]:
        """Yield `crops` crops of the held-out sequences, the same in each call, the `share` of them in batches."""
        if not len(self._held_out.rows):
            return
        rng = np.random.default_rng(seed)
        places = np.concatenate([self._held_out.draw(rng, batch) for _ in range(-(-crops // batch))])[share]
        for start in range(0, len(places), batch):
            yield self._read(places[start : start + batch])

    def _read(self, places: Rows) -> Batch:
        arrays = {name: np.empty((len(places), *shape), dtype) for name, (shape, dtype) in self._steps.items()}
        for row, (shard, sequence, start) in enumerate(places.tolist()):
            for name, array in arrays.items():
                self._shards[shard].files[name].read(sequence, start, array[row])
        jumps = arrays.pop("first")
        jumps[:, 0] = False
        return Batch(arrays, (~np.logical_or.accumulate(jumps, axis=1)).astype(np.float32))

    def _episode_starts(self, sequences: Rows) -> Rows:
        """Return rows of _Places at which an episode starts and a whole crop follows."""
        found = []
        for shard in np.unique(sequences[:, 0]).tolist():
            mine = sequences[sequences[:, 0] == shard]
            row, starts = np.nonzero(self._shards[shard].first[mine[:, 1], : mine[0, 3]])
            found.append(np.stack(np.broadcast_arrays(shard, mine[row, 1], starts, 1), axis=1))
        return np.concatenate(found)


class _Places:
    """First steps of crops. rows: (shard, sequence, first step, number of steps from there that are equally likely)."""

    def __init__(self, rows: Rows, shard_weight: Array) -> None:
        self.rows = rows
        self._cumulative = np.cumsum(rows[:, 3] * shard_weight[rows[:, 0]])

    def draw(self, rng: np.random.Generator, count: int) -> Rows:
        """Sample rows (count, 3) of (shard, sequence, first step), by their weights."""
        where = rng.random(count) * self._cumulative[-1]
        rows = self.rows[np.searchsorted(self._cumulative, where, side="right")]
        rows[:, 2] += (rng.random(count) * rows[:, 3]).astype(np.int64)
        return rows[:, :3]


def _held_out(folders: Rows, share: float, seed: int) -> Mask:
    """Return a mask of the sequences for validation: `share` of each folder, never all, at least one if share > 0.

    If every folder is too small for that, such as one walk each, they are chosen from all folders together.
    """
    chosen = np.zeros(len(folders), dtype=bool)

    def choose(sequences: Rows, count: int) -> None:
        order = np.random.default_rng([seed, 1]).permutation(len(sequences))
        chosen[sequences[order[: min(count, len(sequences) - 1)]]] = True

    for folder in np.unique(folders):
        of_folder = np.flatnonzero(folders == folder)
        choose(of_folder, round(share * len(of_folder)))
    if share > 0 and not chosen.any():
        choose(np.arange(len(folders)), max(round(share * len(folders)), 1))
    return chosen
