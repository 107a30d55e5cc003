"""Recorded walks that a study looks at: a data folder, or the walking sections of a bag."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fcnet_core.arrays import Mask
from fcnet_core.errors import StudyError
from fcnet_core.learning.dataset import Dataset
from fcnet_replay.datasets.from_bag import BagReading, dataset_from_bags


@contextmanager
def recorded(source: Path, reading: BagReading) -> Iterator[Dataset]:
    """The data of a folder, or of a bag as long as the context lasts. Raises FcnetError for what is neither."""
    if (source / "manifest.json").exists():
        yield Dataset(source)
        return
    if not source.exists():
        raise StudyError(f"there is no data folder and no bag {source}; give the path of one")
    with TemporaryDirectory() as folder:
        dataset_from_bags([source], Path(folder) / "data", reading, print)
        yield Dataset(Path(folder) / "data")


def episodes(first: Mask) -> Iterator[tuple[int, int, int]]:
    """Sequence, first step and end of every episode of `first` (S, T)."""
    for sequence, begins in enumerate(first):
        bounds = [0, *(np.flatnonzero(begins[1:]) + 1).tolist(), len(begins)]
        yield from ((sequence, start, end) for start, end in pairwise(bounds))
