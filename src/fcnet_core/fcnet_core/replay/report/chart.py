"""A line plot as SVG. Its colours are the page's: one drawing serves light, dark and print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from fcnet_core.replay.report.axis import Axis, linear_axis, logarithmic_axis
from fcnet_core.replay.report.envelope import envelope

Array = npt.NDArray[np.float64]
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
