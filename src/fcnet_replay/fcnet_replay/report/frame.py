"""Parts that reports share: numbers in tables, the verdict, sections, and plots over the time of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, NamedTuple

from fcnet_core.arrays import Array
from fcnet_core.document import Page, text
from fcnet_core.document.plots import Line, Plot, Plots
from fcnet_replay.report.signals import Signals

LEVELS = {"bad": "problem", "note": "note", "good": "ok"}  # of a finding, most severe first, and the shown word
QUANTILES = {"p50": "median", "p95": "95 %", "p99": "99 %", "max": "largest"}
SPREAD = {"rmse": "RMS", **QUANTILES}
VELOCITIES = {"forward": "m/s", "sideways": "m/s", "yaw rate": "rad/s"}  # in the trunk's frame
TIME = "time [s]"
GROUP = "time"  # of plots over time, and of the playback
Section = tuple[str, list[str]]  # heading and elements in HTML


class ReportFinding(NamedTuple):
    """A sentence of the verdict, its severity, and a code that programs compare."""

    level: Literal["good", "note", "bad"]
    sentence: str
    code: str = ""


@dataclass(frozen=True)
class TimePlots:
    """Draws signals of one run over one time axis; all of these plots are zoomed together."""

    signals: Signals
    plots: Plots

    def line(self, label: str, time: Array, values: Array, colour: int, step: float | None = None) -> Line:
        """Return a line of values (N,) at times (N,) [s], rounded to multiples of `step`."""
        return Line(label, self.signals.over_time(time, values)[:, 0], colour, step)

    def plot(self, title: str, unit: str, lines: Sequence[Line], height: int = 150, **options: Any) -> str:
        """Return the HTML of one plot; options: of Plot."""
        grid = self.signals.grid
        return self.plots.element(Plot(title, TIME, unit, grid, lines, group=GROUP, height=height, **options))

    def of_joints(self, height: int, lines: Callable[[int], Sequence[Line]], unit_right: str = "") -> Iterator[str]:
        """Yield the HTML of a plot for each joint, in columns. lines: of a joint, by its index."""
        yield '<div class="columns">'
        for joint, name in enumerate(self.signals.run.joint_names):
            yield self.plot(joint_title(name), "rad", lines(joint), height, unit_right=unit_right)
        yield "</div>"


def joint_title(name: str) -> str:
    """Return a joint's name for people."""
    return name.removesuffix("_joint").replace("_", " ")


def verdict(found: Iterable[ReportFinding]) -> str:
    """Return the findings as a list in HTML."""
    items = (
        f'<li class="{finding.level}"><b>{LEVELS[finding.level]}</b><span>{escape(finding.sentence)}</span></li>'
        for finding in found
    )
    return f'<ul class="verdict">{"".join(items)}</ul>'


def add_sections(made: Page, sections: Sequence[Section]) -> None:
    """Append headings and their elements to the body of the page."""
    made.body.append("<noscript><p>Plots and playback need JavaScript; the figures in tables do not.</p></noscript>")
    for heading, elements in sections:
        made.body += [text(heading, "h2"), *elements]


def numbers(
    figures: Mapping[str, float | None], names: Iterable[str], form: str = ".3g", scale: float = 1.0
) -> list[str]:
    """Return the figures of these names as cells of a table."""
    return [number(figures.get(name), form, scale=scale) for name in names]


def number(value: float | None, form: str = ".3g", unit: str = "", scale: float = 1.0) -> str:
    """Return a figure with its unit, or a dash if it is unknown."""
    return "–" if value is None or value != value else f"{value * scale:{form}}{unit}"
