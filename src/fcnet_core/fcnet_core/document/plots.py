"""Zoomable plots in a page, drawn by uPlot, which is part of the page.

Plots of one group share zoom, cursor and marked time on their x axis. uPlot (https://github.com/leeoniya/uPlot) is
taken from the Python package youplot; the rest of that package is not used.

Their arrays are rounded to a visible step and packed into one text that the page unpacks without a library. Every array
is stored as differences of integer multiples of its step, high bytes before low bytes, which deflate compresses to a
third; a ten-minute walk takes 2 to 3 MB.
"""

import base64
import importlib.util
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.document import Page
from fcnet_core.errors import FcnetError

SCRIPT = Path(__file__).with_name("plots.js")
COLOURS = 6  # of document.css
UNKNOWN = 0xFFFF  # stands for NaN
LEVELS = 0xFFFE  # maximum multiple
Scale = Literal["linear", "logarithmic", "path"]  # path: y over x in a plane, both in the same unit


@dataclass(frozen=True)
class Grid:
    """Evenly spaced places on an x axis: `count` of them from `start`, `step` apart."""

    start: float
    step: float
    count: int

    @property
    def values(self) -> Array:
        """The places (count,)."""
        return self.start + self.step * np.arange(self.count, dtype=np.float64)


@dataclass(frozen=True)
class Line:
    """Values (N,) over the plot's x, NaN for missing ones.

    step: rounding in the plot's unit, or None; colour: 0 for measurements, 1 for commands; right: on the right axis.
    """

    label: str
    values: Array
    colour: int
    step: float | None = None
    right: bool = False


@dataclass(frozen=True)
class Bars:
    """Spans (N, 2) of x in which a condition holds, drawn in a row, counted from the top."""

    label: str
    spans: Array
    colour: int
    row: int = 0


@dataclass(frozen=True)
class Plot:
    """Lines, or bars in rows with the names `rows`, over x: a Grid, or (N,) sorted places.

    limits: labels and values of dashed lines; zero: y starts at zero; group: plots that share their x axis; unit_right:
    of the right axis.
    """

    title: str
    x_label: str
    unit: str
    x: Grid | Array
    lines: Sequence[Line] = ()
    bars: Sequence[Bars] = ()
    rows: Sequence[str] = ()
    limits: Sequence[tuple[str, float]] = ()
    scale: Scale = "linear"
    zero: bool = False
    group: str = ""
    unit_right: str = ""
    height: int = 190


class PackedArrays:
    """The arrays of one page; plots.js unpacks them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._known: dict[bytes, int] = {}
        self.index: list[dict[str, Any]] = []

    def add(self, values: Array, step: float | None = None) -> int:
        """Add `values` (N,) and return their number in the page.

        They are rounded to multiples of `step`, or of 1/65 534 of their range if that is larger; without a step they
        keep the 24 bits of a float32.
        """
        content = (np.asarray(values, "<f4").tobytes(), {"step": 0}) if step is None else _rounded(values, step)
        key = content[0] + repr(content[1]).encode()
        if key not in self._known:
            self._known[key] = len(self._parts)
            self._parts.append(content[0])
            self.index.append({"count": len(values), **content[1]})
        return self._known[key]

    def text(self) -> str:
        """Return all arrays, compressed, as base64."""
        return base64.b64encode(zlib.compress(b"".join(self._parts), 9)).decode()


def _rounded(values: Array, step: float) -> tuple[bytes, dict[str, Any]]:
    known = np.isfinite(values)
    low = float(values[known].min(initial=np.inf)) if known.any() else 0.0
    high = float(values[known].max()) if known.any() else 0.0
    step = max(step, (high - low) / LEVELS)
    whole = np.full(len(values), UNKNOWN, dtype=np.uint16)
    whole[known] = np.round((values[known] - low) / step).astype(np.uint16)
    change = np.diff(whole, prepend=np.uint16(0))  # modulo 65 536, as are the page's sums
    return (change >> 8).astype(np.uint8).tobytes() + change.astype(np.uint8).tobytes(), {"low": low, "step": step}


class Plots:
    """The plots of one page: `element` returns the place of each, `add_to` adds scripts and data to the page."""

    def __init__(self) -> None:
        self.arrays = PackedArrays()
        self._specs: list[dict[str, Any]] = []

    def element(self, plot: Plot) -> str:
        """Return the HTML of the plot's place; empty if there is nothing to draw."""
        known = any(np.isfinite(line.values).any() for line in plot.lines)
        if not known and not any(len(bar.spans) for bar in plot.bars):
            return ""
        x = vars(plot.x) if isinstance(plot.x, Grid) else self.arrays.add(plot.x)
        lines = [
            vars(line) | {"colour": line.colour % COLOURS, "values": self.arrays.add(line.values, line.step)}
            for line in plot.lines
        ]
        bars = [vars(bar) | {"spans": np.round(bar.spans, 4).tolist()} for bar in plot.bars]
        number = len(self._specs)
        self._specs.append(vars(plot) | {"x": x, "lines": lines, "bars": bars})
        place = f'class="plot" data-plot="{number}" style="min-height:{plot.height + 24}px"'
        return f'<figure {place} role="group" aria-label="{escape(description(plot))}"></figure>'

    def add_to(self, page: Page, main: str) -> None:
        """Add uPlot, plots.js and, as `plotted` for the `main` script, the data of these plots to the page.

        Raises FcnetError if youplot is not installed.
        """
        found = importlib.util.find_spec("youplot")  # without importing it
        if found is None or not found.submodule_search_locations:
            raise FcnetError("plots need the Python package youplot; install requirements/libraries.txt")
        folder = Path(found.submodule_search_locations[0]) / "vendor"
        page.style.append((folder / "uplot.min.css").read_text(encoding="utf-8"))
        page.scripts.append((folder / "uplot.iife.min.js").read_text(encoding="utf-8"))
        page.modules["plots.js"] = SCRIPT.read_text(encoding="utf-8")
        page.main = main
        page.constants["plotted"] = {"plots": self._specs, "index": self.arrays.index, "packed": self.arrays.text()}


def description(plot: Plot) -> str:
    """Describe the plot in words, for screen readers."""
    parts = []
    for line in plot.lines:
        known = line.values[np.isfinite(line.values)]
        unit = plot.unit_right if line.right else plot.unit
        if len(known):
            parts.append(f"{line.label} from {known.min():.3g} to {known.max():.3g} {unit}".strip())
    parts += [f"{bar.label} in {len(bar.spans)} spans" for bar in plot.bars]
    return f"{plot.title} over {plot.x_label}: {', '.join(parts)}"
