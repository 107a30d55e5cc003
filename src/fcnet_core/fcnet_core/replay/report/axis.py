"""A plot's axis: its range, its ticks and where a value lies on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
SMALLEST_DECADE = 1e-12
LARGEST = 1e12  # beyond it is damage


@dataclass(frozen=True)
class Axis:
    """From `low` to `high` in the value's unit, drawn from `start` to `end` in the drawing's."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def place(self, values: Array) -> Array:
        """Where values lie in the drawing; what is beyond the axis is drawn at its end."""
        if self.logarithmic:
            shares = (_log(values) - np.log10(self.low)) / np.log10(self.high / self.low)
        else:
            shares = (values - self.low) / (self.high - self.low)
        placed: Array = self.start + np.clip(shares, 0.0, 1.0) * (self.end - self.start)
        return placed

    def ticks(self, most: int = 5) -> list[float]:
        """Round values, `most` of them or a few less."""
        if self.logarithmic:
            decades = np.arange(round(np.log10(self.low)), round(np.log10(self.high)) + 1)
            return [10.0**decade for decade in decades[:: max(1, len(decades) // most)].tolist()]
        step = _round_step((self.high - self.low) / most)
        first = int(np.ceil(self.low / step - 1e-9))
        return [index * step for index in range(first, first + most + 2) if index * step <= self.high + 1e-9 * step]


def linear_axis(values: Array, start: float, end: float, room: float = 0.05, zero: bool = False) -> Axis:
    """An axis that holds the finite values and some room; zero: from zero on."""
    known = np.clip(values[np.isfinite(values)], -LARGEST, LARGEST)
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    low = min(low, 0.0) if zero else low
    width = max(high - low, 1e-6 * max(abs(high), abs(low)), 1e-12)
    return Axis(low - (0.0 if zero and low == 0 else room * width), low + (1.0 + room) * width, start, end)


def logarithmic_axis(values: Array, start: float, end: float) -> Axis:
    """Whole decades that hold the positive values."""
    known = _log(values[np.isfinite(values) & (values > 0)])
    low, high = (float(known.min()), float(known.max())) if len(known) else (-1.0, 0.0)
    low, high = np.floor(low), min(np.ceil(high), np.log10(LARGEST))
    return Axis(10.0**low, 10.0 ** max(high, low + 1), start, end, logarithmic=True)


def _log(values: Array) -> Array:
    logarithm: Array = np.log10(np.maximum(values, SMALLEST_DECADE))
    return logarithm


def _round_step(step: float) -> float:
    power = 10.0 ** np.floor(np.log10(step))
    return float(next(factor for factor in (1, 2, 5, 10) if factor * power >= step * 0.999) * power)
