"""Charts as inline SVG. Colours are those of document.css: one drawing serves light, dark and print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from fcnet_core.arrays import Array

WIDTH, HEIGHT = 720, 210
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 24, 34  # room around the plot
COLOURS = 6
LETTER = 7.5  # width of a letter of the legend, at most, on average: a page cannot ask how wide its font is
X_TICK = 75  # distance of the x axis' ticks, at least
Y_TICKS = 5  # at most
BUCKETS = 500  # parts of the x axis within each of which a long series is drawn as its smallest and largest value
SMALLEST, LARGEST = 1e-12, 1e12  # on a logarithmic axis; on any axis: beyond it is damage


@dataclass(frozen=True)
class Series:
    """A line through x (N,) in order of size and y (N,); NaN breaks it. colour: 0 is for what was recorded."""

    label: str
    x: Array
    y: Array
    colour: int


def chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    limit: tuple[str, float] | None = None,
    logarithmic: bool = False,
    zero: bool = False,
    width: int = WIDTH,
    height: int = HEIGHT,
) -> str:
    """A drawing of lines, with a description for those who do not see it; nothing where there is nothing to draw.

    x_label and y_label: the axes' names with units; limit: a dashed line with that label; logarithmic: the y axis;
    zero: y from zero on.
    """
    if not any(np.isfinite(line.y).any() for line in series):
        return ""
    right, bottom = width - RIGHT, height - BOTTOM
    x_axis = _axis([line.x for line in series], LEFT, right, room=0.0)
    y_values = [line.y for line in series] + [np.array([limit[1]] if limit else [])]
    y_axis = _log_axis(y_values, bottom, TOP) if logarithmic else _axis(y_values, bottom, TOP, zero=zero)
    names = ", ".join(line.label for line in series)
    parts = [
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(f"{title}: {names}; {y_label} over {x_label}")}">',
        _text("title", LEFT, 14, title),
        *_legend(series, right),
        f'<path class="frame" d="M{LEFT} {TOP}V{bottom}H{right}"/>',
    ]
    for label, y in y_axis.ticks(Y_TICKS):
        parts.append(f'<path class="ruler" d="M{LEFT} {y:.1f}H{right}"/>{_text("tick", LEFT - 5, y + 4, label, "end")}')
    for label, x in x_axis.ticks((right - LEFT) // X_TICK):
        parts.append(f'<path class="ruler" d="M{x:.1f} {bottom}v4"/>{_text("tick", x, bottom + 14, label, "middle")}')
    parts.append(_text("axis", (LEFT + right) / 2, height - 4, x_label, "middle"))
    parts.append(f'<g transform="translate(11,{(TOP + bottom) // 2}) rotate(-90)">')
    parts.append(f"{_text('axis', 0, 0, y_label, 'middle')}</g>")
    parts += [_line(line, x_axis, y_axis) for line in series]
    if limit:
        y = float(y_axis.place(np.array([limit[1]]))[0])
        parts.append(f'<path class="limit" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(_text("tick", right - 4, y + 11, limit[0], "end"))
    return "".join([*parts, "</svg></figure>"])


def timeline(label: str, spans: Sequence[tuple[str, float, float]], colours: Mapping[str, int]) -> str:
    """Coloured spans (name, begin, end), as shares of the drawn time; colours: of every name, in the legend's order."""
    bars = "".join(
        f'<rect class="c{colours[name]}" x="{WIDTH * begin:.1f}" y="2" '
        f'width="{max(WIDTH * (end - begin), 1.0):.1f}" height="20"><title>{escape(name)}</title></rect>'
        for name, begin, end in spans
    )
    legend, x = "", 0
    for name, colour in colours.items():
        legend += f'<rect class="c{colour}" x="{x}" y="32" width="10" height="10"/>{_text("", x + 15, 41, name)}'
        x += 40 + 7 * len(name)
    start = f'<figure><svg viewBox="0 0 {WIDTH} 46" role="img" aria-label="{escape(label)}">'
    return f"{start}{bars}{legend}</svg></figure>"


def _legend(series: Sequence[Series], right: float) -> list[str]:
    """Names at the upper right, the last one outermost."""
    parts = []
    for line in reversed(series if len(series) > 1 else []):
        parts.append(_text("legend", right, 14, line.label, "end"))
        right -= LETTER * len(line.label) + 6
        parts.append(f'<path class="line c{line.colour % COLOURS}" d="M{right - 14:.0f} 10H{right:.0f}"/>')
        right -= 26
    return parts


@dataclass(frozen=True)
class _Axis:
    """From `low` to `high`, drawn from `start` to `end`; logarithmic: low and high are powers of ten."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def place(self, values: Array) -> Array:
        """Where values lie in the drawing; what is beyond the axis is drawn at its end."""
        values = np.log10(np.maximum(values, SMALLEST)) if self.logarithmic else values
        return np.interp(values, [self.low, self.high], [self.start, self.end])

    def ticks(self, most: int) -> list[tuple[str, float]]:
        """Labels and places of round values, at most about `most`."""
        step = max((self.high - self.low) / most, 1.0 if self.logarithmic else 0.0)
        power = 10.0 ** np.floor(np.log10(step))
        step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= 0.999 * step)
        first, last = int(np.ceil(self.low / step - 1e-9)), int(np.floor(self.high / step + 1e-9))
        values = step * np.arange(first, last + 1)
        values = 10.0**values if self.logarithmic else values
        return [(_number(value), place) for value, place in zip(values, self.place(values), strict=True)]


def _axis(parts: Sequence[Array], start: float, end: float, room: float = 0.05, zero: bool = False) -> _Axis:
    """An axis that holds the finite values and some room; zero: from zero on."""
    values = np.concatenate(parts)
    known = np.clip(values[np.isfinite(values)], -LARGEST, LARGEST)
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    low = min(low, 0.0) if zero else low
    width = max(high - low, 1e-6 * max(abs(high), abs(low)), 1e-12)
    return _Axis(low - (0.0 if zero and low == 0 else room * width), low + (1.0 + room) * width, start, end)


def _log_axis(parts: Sequence[Array], start: float, end: float) -> _Axis:
    """Whole decades that hold the positive values."""
    values = np.concatenate(parts)
    known = np.log10(np.clip(values[np.isfinite(values) & (values > 0)], SMALLEST, LARGEST))
    low, high = (np.floor(known.min()), np.ceil(known.max())) if len(known) else (-1.0, 0.0)
    return _Axis(float(low), float(max(high, low + 1)), start, end, logarithmic=True)


def _line(series: Series, x_axis: _Axis, y_axis: _Axis) -> str:
    order = np.argsort(series.x, kind="stable")  # stamps can be out of order
    x, y = _envelope(series.x[order], series.y[order])
    drawn = np.isfinite(y)
    begins = drawn & ~np.append(False, drawn[:-1])[: len(drawn)]
    points = zip(begins[drawn], x_axis.place(x[drawn]), y_axis.place(y[drawn]), strict=True)
    path = "".join(f"{'M' if begin else 'L'}{at:.1f} {height:.1f}" for begin, at, height in points)
    return f'<path class="line c{series.colour % COLOURS}" d="{path}"/>'


def _envelope(x: Array, y: Array) -> tuple[Array, Array]:
    """At most about two points for each of BUCKETS parts of the range of x, which increases; NaN where the line breaks.
    No extreme value is lost.
    """
    if len(x) <= 2 * BUCKETS:
        return x, y
    part = np.minimum((BUCKETS * (x - x[0]) / (x[-1] - x[0])).astype(np.int64), BUCKETS - 1)
    starts = np.flatnonzero(np.append(True, np.diff(part) > 0))
    known = np.isfinite(y)
    lowest = np.minimum.reduceat(np.where(known, y, np.inf), starts)
    highest = np.maximum.reduceat(np.where(known, y, -np.inf), starts)
    points = np.where(np.isfinite(lowest)[:, None], np.column_stack([lowest, highest]), np.nan)
    points[1::2] = points[1::2, ::-1]  # up and down in turn: one line through all
    return np.repeat(x[starts], 2), points.ravel()


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:.6g}" if 1e-3 <= abs(value) < 1e5 or value == 0 else f"{value:.0e}".replace("e-0", "e-")
