"""How long something took: the newest durations and their quantiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WINDOW = 4096  # samples kept: 82 s at 50 Hz, 8 s at 500 Hz


@dataclass(frozen=True)
class Quantiles:
    """Median, 99th percentile and maximum [s] of the newest samples; all zero without samples."""

    p50: float
    p99: float
    largest: float


class LatencyRing:
    """The newest durations [s], written by one thread and read by another without a lock."""

    def __init__(self, size: int = WINDOW) -> None:
        self._samples: npt.NDArray[np.float64] = np.zeros(size)
        self._count = 0

    def add(self, duration: float) -> None:
        """Take one more duration [s] in place of the oldest."""
        self._samples[self._count % len(self._samples)] = duration
        self._count += 1

    def quantiles(self) -> Quantiles:
        """Quantiles of the samples kept."""
        samples = self._samples[: min(self._count, len(self._samples))]
        if not len(samples):
            return Quantiles(0.0, 0.0, 0.0)
        # not np.quantile, whose first call takes a tenth of a second and keeps every thread from the interpreter
        places = np.array([0.5, 0.99, 1.0]) * (len(samples) - 1)
        p50, p99, largest = np.interp(places, np.arange(len(samples)), np.sort(samples)).tolist()
        return Quantiles(p50, p99, largest)
