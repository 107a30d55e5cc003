"""How the energy of recorded signals is spread over the modes of a window: the FCNet paper's Figure 1.

A signal is an entry of what a step of the data holds, in the unit in which a policy sees it (mean 0 and standard
deviation 1 over the data, so that the entries of a group count alike). Windows of n steps lie one behind the other
within an episode and are taken as they are, without a taper, as the network takes them. The energy of mode k is
|X_k|^2 of the window's DFT, with that of its mirror n - k: all modes together have the window's energy (Parseval).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from fcnet_core.arrays import Array, ArraySpec, Mask
from fcnet_core.errors import StudyError
from fcnet_core.learning.dataset import Dataset, Shard
from fcnet_replay.datasets.from_bag import BagReading
from fcnet_study.recorded import episodes, recorded
from fcnet_study.report import Report

ALMOST_ALL = 0.99


@dataclass(frozen=True)
class Spectrum:
    """By group of signals: energy (windows, n // 2 + 1) of every window and mode. rate: of steps [Hz]."""

    window: int
    rate: float
    energy: dict[str, Array]

    def density(self, group: str) -> Array:
        """Share (n // 2 + 1,) of every mode in the energy of all windows."""
        total = self.energy[group].sum(0)
        return total / total.sum()

    def report(self, source: Path, modes: int) -> Report:
        """A row for each group: how much the lowest modes keep, of all windows together and of single ones."""
        rows = {}
        for group, energy in self.energy.items():
            density, total = self.density(group), energy.sum(1)
            alone = energy[total > 0, :modes].sum(1) / total[total > 0]
            without_mean = density[1:modes].sum() / density[1:].sum()
            figures = (density[0], density[:modes].sum(), np.quantile(alone, 0.1), without_mean)
            needed = int(np.searchsorted(np.cumsum(density), ALMOST_ALL)) + 1
            rows[group.replace("_", " ")] = (*(f"{100 * figure:.1f}" for figure in figures), str(needed))
        columns = (
            "mode 0 [%]",
            f"lowest {modes} [%]",
            "in 90 % of windows at least [%]",
            "without mode 0 [%]",
            f"modes for {100 * ALMOST_ALL:g} %",
        )
        windows = len(next(iter(self.energy.values())))
        how = (
            f"{windows:,} windows of {self.window} steps at {self.rate:g} Hz of {source}; the lowest {modes} of"
            f" {self.window // 2 + 1} modes reach to {(modes - 1) * self.rate / self.window:.1f} Hz"
        )
        return Report("Energy over modes", columns, rows, how)

    def draw(self, path: Path, modes: int) -> None:
        """Write a figure: the energy density over the modes, a line for each group."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.subplots()
        for group in self.energy:
            density = 100 * self.density(group)
            axes.plot(range(len(density)), density, marker=".", label=group.replace("_", " "))
        axes.axvline(modes - 0.5, color="black", linestyle="--", label=f"the lowest {modes} modes")
        axes.set(xlabel=f"mode k, of {self.rate / self.window:.2f} Hz each", ylabel="energy [%]", yscale="log")
        axes.grid(alpha=0.3)
        figure.legend(loc="outside right upper")
        figure.savefig(path, dpi=120)


def spectrum_of(source: Path, window: int) -> Spectrum:
    """The spectrum of a data folder, or of a bag's walking sections.

    Raises FcnetError for what is neither, StudyError where no episode is as long as a window.
    """
    with recorded(source, BagReading()) as data:
        return spectrum_of_data(data, window)


def spectrum_of_data(data: Dataset, window: int) -> Spectrum:
    """The spectrum of every group of signals: a named part of an array, or an array without parts."""
    energy: dict[str, list[Array]] = {}
    for shard in tqdm(data.shards, desc="transforming", unit="shard", leave=False, disable=None):
        starts = list(window_starts(shard.first, window))
        if not starts:
            continue
        rows = np.array([sequence for sequence, _ in starts])[:, None]
        steps = np.array([start for _, start in starts])[:, None] + np.arange(window)
        for group, signals in _groups(data, shard):
            transformed = np.fft.rfft(signals[rows, steps], axis=1)  # (windows, modes, entries)
            energy.setdefault(group, []).append((np.abs(transformed) ** 2).sum(2) * _mirrored(window))
    if not energy:
        raise StudyError(f"no recorded episode is as long as a window of {window} steps; take a shorter one")
    return Spectrum(window, data.manifest.control_rate, {name: np.concatenate(parts) for name, parts in energy.items()})


def window_starts(first: Mask, window: int) -> Iterator[tuple[int, int]]:
    """Sequence and step at which windows begin, one behind the other within each episode of `first` (S, T)."""
    for sequence, start, end in episodes(first):
        yield from ((sequence, step) for step in range(start, end - window + 1, window))


def _groups(data: Dataset, shard: Shard) -> Iterator[tuple[str, Array]]:
    """Each group's signals (S, T, entries) that vary, with mean 0 and standard deviation 1 over the data."""
    for name, spread in data.statistics.items():
        spec: ArraySpec = data.manifest.arrays[name]
        if len(spec.shape) != 1:
            continue
        values = np.asarray(shard.arrays[name], dtype=np.float64)
        for group, entries in (spec.slices() or {name: slice(None)}).items():
            mean, std = spread.mean[entries], spread.std[entries]
            varying = std > 1e-6 * (1 + np.abs(mean))
            if varying.any():
                yield group, (values[..., entries][..., varying] - mean[varying]) / std[varying]


def _mirrored(window: int) -> Array:
    """How often a mode of the real DFT stands for in the full one (n // 2 + 1,)."""
    counts = np.full(window // 2 + 1, 2.0)
    counts[0] = 1.0
    if window % 2 == 0:
        counts[-1] = 1.0
    return counts
