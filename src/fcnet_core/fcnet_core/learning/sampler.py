"""Crops: the short sequences that training draws from recorded behaviour, read from disk as they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core import FcnetError
from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.learning.dataset import Dataset

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Crops of recorded behaviour: arrays (B, T, ...) by name, and counts (B, T) float32, which is 0 from the step on
    at which the recording jumps to another episode, because the crop's past is not its past.
    """

    arrays: dict[str, npt.NDArray[Any]]
    counts: Single


class CropSampler:
    """Draws crops of `length` steps of the named arrays, keeping `held_out_share` of the sequences for validation.

    weights: one per data folder; a step of a folder with weight 2 is drawn twice as often as one with weight 1.
    Which sequences are held out depends on `seed` alone, so that a resumed run holds out the same ones.
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
        self.length = length
        self.episode_start_share = episode_start_share
        self._arrays = [{name: np.asarray(s.arrays[name]) for name in (*names, "first")} for s in data.shards]
        sequences = np.concatenate([_sequences(index, *shard.first.shape) for index, shard in enumerate(data.shards)])
        sequences = sequences[sequences[:, 2] >= length]
        if not len(sequences):
            raise FcnetError(f"no recorded sequence is as long as a crop of {length} steps; use a smaller crop")
        folder_weight = dict(zip(data.folders, weights, strict=True))
        shard_weight = np.array([folder_weight[shard.path.parent] for shard in data.shards])
        held_out = _held_out(len(sequences), held_out_share, seed)
        self.held_out_steps = int(sequences[held_out, 2].sum())
        self.training_steps = int(sequences[~held_out, 2].sum())
        weight = (sequences[:, 2] - length + 1) * shard_weight[sequences[:, 0]]
        self._training = _Choice(sequences[~held_out], weight[~held_out])
        self._held_out = _Choice(sequences[held_out], weight[held_out])
        self._starts = self._episode_starts(sequences[~held_out], shard_weight)

    def draw(self, rng: np.random.Generator, batch: int) -> Batch:
        """Crops for one optimiser step."""
        places = self._places(self._training, rng, batch)
        if self._starts is not None and self.episode_start_share > 0:
            at_start = rng.random(batch) < self.episode_start_share
            places[at_start] = self._starts.draw(rng, int(at_start.sum()))
        return self._read(places)

    def held_out(self, crops: int, batch: int, seed: int) -> Iterator[Batch]:
        """The same `crops` crops of the held-out sequences at every call, in batches."""
        rng = np.random.default_rng(seed)
        for _ in range(-(-crops // batch) if len(self._held_out) else 0):
            yield self._read(self._places(self._held_out, rng, batch))

    def _places(self, choice: _Choice, rng: np.random.Generator, batch: int) -> Index:
        """Rows of (shard, sequence, first step), every step of the chosen sequences equally likely."""
        places = choice.draw(rng, batch)
        room = places[:, 2] - self.length + 1
        places[:, 2] = (rng.random(batch) * room).astype(np.int64)
        return places

    def _read(self, places: Index) -> Batch:
        arrays = {name: np.stack([self._crop(name, *place) for place in places.tolist()]) for name in self._arrays[0]}
        jumps = arrays.pop("first")
        jumps[:, 0] = False
        return Batch(arrays, (~np.logical_or.accumulate(jumps, axis=1)).astype(np.float32))

    def _crop(self, name: str, shard: int, sequence: int, start: int) -> npt.NDArray[Any]:
        return self._arrays[shard][name][sequence, start : start + self.length]

    def _episode_starts(self, sequences: Index, shard_weight: Array) -> _Choice | None:
        """All (shard, sequence, step) at which an episode begins and a whole crop follows."""
        found = []
        for shard, sequence, steps in sequences.tolist():
            (starts,) = np.nonzero(self._arrays[shard]["first"][sequence, : steps - self.length + 1])
            found.append(np.stack([np.full_like(starts, shard), np.full_like(starts, sequence), starts], axis=1))
        places = np.concatenate(found)
        return _Choice(places, shard_weight[places[:, 0]]) if len(places) else None


class _Choice:
    """Draws rows with given weights."""

    def __init__(self, rows: Index, weight: Array) -> None:
        self._rows = rows
        self._cumulative = np.cumsum(weight)

    def __len__(self) -> int:
        return len(self._rows)

    def draw(self, rng: np.random.Generator, count: int) -> Index:
        """A copy of `count` rows."""
        where = rng.random(count) * self._cumulative[-1]
        return self._rows[np.searchsorted(self._cumulative, where, side="right")]


def _sequences(shard: int, count: int, steps: int) -> Index:
    """Rows of (shard, sequence, steps) for a shard of `count` sequences."""
    return np.stack([np.full(count, shard), np.arange(count), np.full(count, steps)], axis=1)


def _held_out(sequences: int, share: float, seed: int) -> Mask:
    """True for the sequences kept for validation: at least one if any are wanted, never all."""
    count = min(max(round(share * sequences), 1), sequences - 1) if share > 0 else 0
    chosen = np.zeros(sequences, dtype=bool)
    chosen[np.random.default_rng([seed, 1]).permutation(sequences)[:count]] = True
    return chosen
