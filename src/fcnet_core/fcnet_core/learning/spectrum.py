"""Energy of recorded signals over the modes of a window, as in Figure 1 of the FCNet paper.

A signal is one entry of the arrays of a data set, scaled to mean 0 and standard deviation 1 over the data, as a policy
sees it, so that all entries of a group have the same weight. Windows of n steps follow each other within an episode,
without overlap and without a taper, as in the network. The energy of mode k is |X_k|^2 of the window's DFT plus the
energy of its mirror n - k: the sum over the modes is n times the sum of squares of the window (Parseval).
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Dataset, Shard


def energy_over_modes(data: Dataset, window: int) -> dict[str, Array]:
    """Return the energy (windows, window // 2 + 1) of every window and mode, by group of signals.

    A group is a named part of an array, or an array without parts; signals that do not vary are left out. Needs scipy.
    Raises FcnetError if no episode is as long as a window.
    """
    from scipy.signal import periodogram

    energy: dict[str, list[Array]] = {}
    for shard in data.shards:
        starts = np.array(list(window_starts(shard.first, window)), dtype=np.intp).reshape(-1, 2)
        if not len(starts):
            continue
        rows, steps = starts[:, :1], starts[:, 1:] + np.arange(window)
        for group, signals in _groups(data, shard):
            _, density = periodogram(signals[rows, steps], axis=1, detrend=False)  # (windows, modes, entries)
            energy.setdefault(group, []).append(window * density.sum(2))
    if not energy:
        raise FcnetError(f"no recorded episode is as long as a window of {window} steps; take a shorter window")
    return {name: np.concatenate(parts) for name, parts in energy.items()}


def episodes(first: Mask) -> Iterator[tuple[int, int, int]]:
    """Yield sequence, first step and end of every episode of `first` (S, T), which is true at an episode's start."""
    for sequence, starts in enumerate(first):
        bounds = [0, *(np.flatnonzero(starts[1:]) + 1).tolist(), len(starts)]
        yield from ((sequence, start, end) for start, end in pairwise(bounds))


def window_starts(first: Mask, window: int) -> Iterator[tuple[int, int]]:
    """Yield sequence and step at which the windows of every episode of `first` (S, T) start."""
    for sequence, start, end in episodes(first):
        yield from ((sequence, step) for step in range(start, end - window + 1, window))


def _groups(data: Dataset, shard: Shard) -> Iterator[tuple[str, Array]]:
    """Yield each group's varying signals (S, T, entries), with mean 0 and standard deviation 1 over the data."""
    for name, spread in data.statistics.items():
        spec = data.manifest.arrays[name]
        if len(spec.shape) != 1:
            continue
        values = np.asarray(shard.arrays[name], dtype=np.float64)
        for group, entries in (spec.slices() or {name: slice(None)}).items():
            mean, std = spread.mean[entries], spread.std[entries]
            varying = std > 1e-6 * (1 + np.abs(mean))
            if varying.any():
                yield group, (values[..., entries][..., varying] - mean[varying]) / std[varying]
