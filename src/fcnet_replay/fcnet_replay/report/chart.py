"""A line plot as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

# A plot's axis: its range, its ticks and where a value lies on it.

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


# Long series in few points: where there are many values within a pixel, their smallest and largest.

BUCKETS = 500


def envelope(x: Array, y: Array) -> tuple[Array, Array]:
    """Points (P,), at most about two for each of BUCKETS equal parts of the range of x; NaN where a line must break.

    x is increasing. No extreme value is lost.
    """
    if len(x) <= 2 * BUCKETS:
        return x, y
    part = np.minimum((BUCKETS * (x - x[0]) / (x[-1] - x[0])).astype(np.int64), BUCKETS - 1)
    starts = np.flatnonzero(np.append(True, np.diff(part) > 0))
    known = np.isfinite(y)
    lowest = np.minimum.reduceat(np.where(known, y, np.inf), starts)
    highest = np.maximum.reduceat(np.where(known, y, -np.inf), starts)
    some = np.isfinite(lowest)
    points = np.column_stack([np.where(some, lowest, np.nan), np.where(some, highest, np.nan)])
    points[1::2] = points[1::2, ::-1]  # up and down in turn: one line through all
    middle = x[starts]
    return np.repeat(middle, 2), points.ravel()


# A line plot as SVG. Its colours are the page's: one drawing serves light, dark and print.

LEFT, RIGHT, TOP, BOTTOM = 58, 10, 24, 34  # room around the plot
COLOURS = 6
TICK_WIDTH = 75  # at least, between two ticks of the x axis
LETTER = 7.5  # at most, on average, in a legend: a page cannot ask how wide its font is


@dataclass(frozen=True)
class Series:
    """A line through x (N,) in their order of size and y (N,); NaN breaks it. colour: 0 is for what was recorded."""

    label: str
    x: Array
    y: Array
    colour: int


@dataclass(frozen=True)
class Chart:
    """title, and the axes' names with units; limit: a dashed line with that label; zero: y from zero on."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    limit: tuple[str, float] | None = None
    logarithmic: bool = False
    zero: bool = False
    width: int = 720
    height: int = 210

    def svg(self) -> str:
        """The drawing, with a description for those who do not see it."""
        x_axis = linear_axis(_all([series.x for series in self.series]), LEFT, self.width - RIGHT, room=0.0)
        y_axis = self._y_axis()
        parts = [
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(self._told())}">',
            f'<text class="title" x="{LEFT}" y="14">{escape(self.title)}</text>',
            self._legend(),
            _grid(x_axis, y_axis, self.height - BOTTOM),
            f'<text class="axis" x="{(LEFT + self.width - RIGHT) // 2}" y="{self.height - 4}" text-anchor="middle">'
            f"{escape(self.x_label)}</text>",
            f'<text class="axis" transform="translate(11,{(TOP + self.height - BOTTOM) // 2}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y_label)}</text>',
            *(_line(series, x_axis, y_axis) for series in self.series),
            self._limit(y_axis),
            "</svg>",
        ]
        return "".join(parts)

    def _y_axis(self) -> Axis:
        values = _all([series.y for series in self.series] + [np.array([self.limit[1]] if self.limit else [])])
        if self.logarithmic:
            return logarithmic_axis(values, self.height - BOTTOM, TOP)
        return linear_axis(values, self.height - BOTTOM, TOP, zero=self.zero)

    def _legend(self) -> str:
        """Names at the upper right, the last one outermost."""
        parts, right = [], float(self.width - RIGHT)
        for series in reversed(self.series if len(self.series) > 1 else []):
            parts.append(f'<text class="legend" x="{right:.0f}" y="14" text-anchor="end">{escape(series.label)}</text>')
            right -= LETTER * len(series.label) + 6
            parts.append(f'<path class="line c{series.colour % COLOURS}" d="M{right - 14:.0f} 10H{right:.0f}"/>')
            right -= 26
        return "".join(parts)

    def _limit(self, y_axis: Axis) -> str:
        if self.limit is None:
            return ""
        label, value = self.limit
        (y,) = y_axis.place(np.array([value]))
        end = self.width - RIGHT
        return (
            f'<path class="limit" d="M{LEFT} {y:.1f}H{end}"/>'
            f'<text class="tick" x="{end - 4}" y="{y + 11:.1f}" text-anchor="end">{escape(label)}</text>'
        )

    def _told(self) -> str:
        names = ", ".join(series.label for series in self.series)
        return f"{self.title}: {names}; {self.y_label} over {self.x_label}"


def _grid(x_axis: Axis, y_axis: Axis, bottom: int) -> str:
    parts = [f'<path class="frame" d="M{x_axis.start:.0f} {TOP}V{bottom}H{x_axis.end:.0f}"/>']
    for tick, place in zip(y_axis.ticks(), y_axis.place(np.array(y_axis.ticks())).tolist(), strict=True):
        parts.append(f'<path class="grid" d="M{x_axis.start:.0f} {place:.1f}H{x_axis.end:.0f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 5}" y="{place + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    ticks = x_axis.ticks(round((x_axis.end - x_axis.start) / TICK_WIDTH))
    for tick, place in zip(ticks, x_axis.place(np.array(ticks)).tolist(), strict=True):
        parts.append(f'<path class="grid" d="M{place:.1f} {bottom}v4"/>')
        parts.append(
            f'<text class="tick" x="{place:.1f}" y="{bottom + 14}" text-anchor="middle">{_number(tick)}</text>'
        )
    return "".join(parts)


def _line(series: Series, x_axis: Axis, y_axis: Axis) -> str:
    order = np.argsort(series.x, kind="stable")  # stamps can be out of order
    x, y = envelope(series.x[order], series.y[order])
    xs, ys = x_axis.place(x).tolist(), y_axis.place(np.where(np.isfinite(y), y, np.nan)).tolist()
    path, drawing = [], False
    for at, height in zip(xs, ys, strict=True):
        if height == height:  # not NaN
            path.append(f"{'L' if drawing else 'M'}{at:.1f} {height:.1f}")
        drawing = height == height
    return f'<path class="line c{series.colour % COLOURS}" d="{"".join(path)}"/>'


def _all(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts]) if parts else np.empty(0)


def _number(value: float) -> str:
    return f"{value:.6g}" if 1e-3 <= abs(value) < 1e5 or value == 0 else f"{value:.0e}".replace("e-0", "e-")
