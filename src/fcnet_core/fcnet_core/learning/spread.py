"""Mean, standard deviation and ends of every entry of recorded arrays, kept beside the data once they are computed.

    FOLDER/statistics.json      sums over all steps of the folder, and of which files they are

Files are told apart by name, size and time of change (ctime, which a program cannot set back): a shard that was added,
replaced or written to makes the folder be read again. Where the folder cannot be written, nothing is kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.files import write_whole

if TYPE_CHECKING:
    from fcnet_core.learning.dataset import Shard

NAME = "statistics.json"
CHUNK = 2**23  # values in memory at a time


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation, least and largest value of every entry of an array, over all steps."""

    mean: Array
    std: Array
    lowest: Array
    highest: Array


class _Sums(Struct):
    """Sum, sum of squares, least and largest value of every entry of an array, in row order, in float64."""

    total: list[float]
    square: list[float]
    lowest: list[float]
    highest: list[float]


class _Kept(Struct):
    """Content of the file: a fingerprint of the summed files, how many steps they hold, and their sums by array."""

    files: str
    steps: int
    arrays: dict[str, _Sums]


def spread_of(shards: Iterable[Shard], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Spread]:
    """The spread of the arrays of these names and shapes over all shards, folder by folder.

    Raises FcnetError that names a file with a value that is not finite.
    """
    folders: dict[Path, list[Shard]] = {}
    for shard in shards:
        folders.setdefault(shard.path.parent, []).append(shard)
    parts = [_kept(folder, inside, shapes) for folder, inside in folders.items()]
    steps = sum(part.steps for part in parts)
    return {name: _spread([part.arrays[name] for part in parts], steps, shape) for name, shape in shapes.items()}


def _spread(parts: Sequence[_Sums], steps: int, shape: tuple[int, ...]) -> Spread:
    total, square, lowest, highest = (
        join(np.array([getattr(part, name) for part in parts]), axis=0).reshape(shape)
        for name, join in (("total", np.sum), ("square", np.sum), ("lowest", np.min), ("highest", np.max))
    )
    mean = total / steps
    return Spread(mean, np.sqrt(np.maximum(square / steps - mean**2, 0.0)), lowest, highest)


def _kept(folder: Path, shards: Sequence[Shard], shapes: Mapping[str, tuple[int, ...]]) -> _Kept:
    """The folder's sums: those of its file where they are of these very shards, else summed and written there."""
    files = _fingerprint(shards, shapes)
    with contextlib.suppress(OSError, ValueError):  # there is none, or it is damaged
        kept = msgspec.json.decode((folder / NAME).read_bytes(), type=_Kept)
        if kept.files == files:
            return kept
    arrays = {name: _sums(shards, name, shape) for name, shape in shapes.items()}
    summed = _Kept(files, sum(shard.steps for shard in shards), arrays)
    with contextlib.suppress(OSError):  # the folder may be read-only, the disk full
        write_whole(folder / NAME, msgspec.json.encode(summed))
    return summed


def _fingerprint(shards: Sequence[Shard], shapes: Mapping[str, tuple[int, ...]]) -> str:
    digest = blake2b(repr(dict(shapes)).encode(), digest_size=16)
    for shard in shards:
        for name in shapes:
            facts = shard.files[name].path.stat()
            digest.update(f"{shard.path.name}/{name} {facts.st_size} {facts.st_ctime_ns}\n".encode())
    return digest.hexdigest()


def _sums(shards: Sequence[Shard], name: str, shape: tuple[int, ...]) -> _Sums:
    size = int(np.prod(shape, dtype=int))
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
    return _Sums(total.tolist(), square.tolist(), lowest.tolist(), highest.tolist())
