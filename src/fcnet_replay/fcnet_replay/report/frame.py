"""Parts that reports share: the verdict in words, sections, and plots over the time of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, NamedTuple

from fcnet_core.arrays import Array
from fcnet_core.document import Page, text
from fcnet_core.document.plots import Line, Plot, Plots
from fcnet_core.robot import JOINT_NAMES
from fcnet_replay.report.signals import Signals
from fcnet_replay.report.terms import LEVELS

TIME = "time [s]"
Section = tuple[str, list[str]]  # heading and elements in HTML


class ReportFinding(NamedTuple):
    """A sentence of the verdict, its severity, and a code that programs compare."""

    level: Literal["good", "note", "bad"]
    sentence: str
    code: str = ""


@dataclass(frozen=True)
class TimePlots:
    """Draws signals of one run over one time axis; the plots of a group are zoomed together."""

    signals: Signals
    plots: Plots
    group: str

    def line(self, label: str, time: Array, values: Array, colour: int, step: float | None = None) -> Line:
        """Return a line of values (N,) at times (N,) [s], shown to multiples of `step`."""
        return Line(label, self.signals.over_time(time, values)[:, 0], colour, step)

    def plot(self, title: str, unit: str, lines: Sequence[Line], height: int = 150, **options: Any) -> str:
        """Return the HTML of one plot; options: of Plot."""
        grid = self.signals.grid
        return self.plots.element(Plot(title, TIME, unit, grid, lines, group=self.group, height=height, **options))

    def of_joints(self, height: int, lines: Callable[[int], Sequence[Line]], unit_right: str = "") -> Iterator[str]:
        """Yield the HTML of a plot for each joint, in columns. lines: of a joint, by its index."""
        yield '<div class="columns">'
        for joint, name in enumerate(JOINT_NAMES):
            yield self.plot(joint_title(name), "rad", lines(joint), height, unit_right=unit_right)
        yield "</div>"


def joint_title(name: str) -> str:
    """Return a joint's name for people."""
    return name.removesuffix("_joint").replace("_", " ")


def verdict(found: Iterable[ReportFinding]) -> str:
    """Findings as a list."""
    return '<ul class="verdict">{}</ul>'.format(
        "".join(
            f'<li class="{finding.level}"><b>{LEVELS[finding.level]}</b><span>{escape(finding.sentence)}</span></li>'
            for finding in found
        )
    )


def add_sections(made: Page, sections: Sequence[Section], tag: str = "h2") -> None:
    """Headings and their elements at the end of the page's body."""
    made.body.append("<noscript><p>Plots and playback need JavaScript; the figures in tables do not.</p></noscript>")
    for heading, elements in sections:
        made.body += [text(heading, tag), *elements]
