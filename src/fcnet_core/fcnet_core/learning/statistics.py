"""Mean, standard deviation and range of every entry of recorded arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError

if TYPE_CHECKING:
    from fcnet_core.learning.dataset import Shard

CHUNK = 2**23  # values in memory at a time


@dataclass(frozen=True)
class ArrayStatistics:
    """Mean, standard deviation, lowest and highest value of every entry of an array, over all steps."""

    mean: Array
    std: Array
    lowest: Array
    highest: Array


def array_statistics(shards: Sequence[Shard], name: str, shape: tuple[int, ...]) -> ArrayStatistics:
    """Read an array of this name and shape (per step) in all shards, chunk by chunk, and return its statistics.

    Raises FcnetError that names a file with a value that is not finite.
    """
    size, steps = int(np.prod(shape, dtype=int)), sum(shard.steps for shard in shards)
    total, square = np.zeros(size), np.zeros(size)
    lowest, highest = np.full(size, np.inf), np.full(size, -np.inf)
    for shard in shards:
        rows: npt.NDArray[Any] = shard.files[name].map().reshape(-1, size)
        for start in range(0, len(rows), step := max(1, CHUNK // size)):
            chunk = rows[start : start + step].astype(np.float64)
            total += chunk.sum(0)
            lowest, highest = np.minimum(lowest, chunk.min(0)), np.maximum(highest, chunk.max(0))
            square += np.square(chunk, out=chunk).sum(0)
        if not np.isfinite(total).all():
            raise FcnetError(
                f"{shard.files[name].path} holds a value that is not finite; `fcnet dataset validate"
                f" {shard.path.parent}` says where, delete {shard.path} and make that shard again"
            )
    mean = total / steps
    std = np.sqrt(np.maximum(square / steps - mean**2, 0.0))
    return ArrayStatistics(*(values.reshape(shape) for values in (mean, std, lowest, highest)))
