"""Training runs as one HTML page that loads nothing: curves to zoom into, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from html import escape

import numpy as np

from fcnet_core.document import Page, table, text
from fcnet_core.document.plots import COLOURS, Line, Plot, Plots
from fcnet_core.runs.comparison import sections, standing
from fcnet_core.runs.folder import Report, TrainingRun

RELOAD = 5.0  # [s] after which a live page reads itself again
MOST_POINTS = 2000  # of a curve of all runs together
CURVES = {  # an entry of Report: what its axis says, its unit, and whether it is logarithmic
    "loss": ("loss", "", True),
    "held_out_error": ("held-out error", "rad", True),
    "learning_rate": ("learning rate", "", False),
}
ABOUT = """Drag over a part to see it larger in all plots; a double click shows all again. The loss is of the training
data, in the network's unit, the mean since the report before. The held-out error is the root mean square on sequences
that this training never sees."""
WITHOUT_SCRIPTS = "The curves need JavaScript; the numbers are in metrics.csv."
LIVE = f"""This page reads itself again every {RELOAD:g} seconds while the training goes on, except while a part of the
curves is shown larger."""
MAIN = """import { Plots, unpack } from "./plots.js";
const plots = new Plots(plotted.plots, await unpack(plotted));
const whole = () => plots.panels.every(({ range }) => range === null);
if (live) setInterval(() => whole() && location.reload(), reload);
"""


def page(runs: Sequence[TrainingRun], live: bool = False) -> str:
    """The page; a live one reads itself again. Raises FcnetError where youplot is not installed."""
    names, plots = [run.name for run in runs], Plots()
    made = Page(f"Training of {names[0]}" if len(runs) == 1 else f"{len(runs)} training runs")
    written = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    lead = f"{'; '.join(map(standing, runs)) if len(runs) == 1 else ', '.join(names)}. Written at {written}."
    made.body += [text(made.title, "h1"), f'<p class="lead">{escape(lead)}</p>', text(LIVE) if live else ""]
    made.body += [plots.element(plot) for plot in _plots(runs)]
    made.body += [text(ABOUT), f"<noscript>{text(WITHOUT_SCRIPTS)}</noscript>"]
    for heading, rows in sections(runs).items():
        made.body += [text(heading, "h2"), table(["", *names], rows)]
    made.constants |= {"live": live, "reload": 1000 * RELOAD}
    plots.add_to(made, MAIN)
    return made.html()


def _plots(runs: Sequence[TrainingRun]) -> Iterator[Plot]:
    """A plot of each curve over the optimiser steps of all runs."""
    shown = [_thinned(run.reports, MOST_POINTS // len(runs)) for run in runs]
    steps = np.unique([report.step for reports in shown for report in reports]).astype(np.float64)
    for entry, (name, unit, logarithmic) in CURVES.items():
        lines = []
        for number, (run, reports) in enumerate(zip(runs, shown, strict=True)):
            values = np.full(len(steps), np.nan)
            rows = np.searchsorted(steps, [report.step for report in reports])
            values[rows] = [np.nan if (value := getattr(report, entry)) is None else value for report in reports]
            lines.append(Line(run.name if len(runs) > 1 else name, values, 1 + number % (COLOURS - 1)))
        yield Plot(
            name.capitalize(),
            "optimiser step",
            unit,
            steps,
            lines,
            scale="logarithmic" if logarithmic else "linear",
            zero=not logarithmic,
            joined=True,
            group="steps",
            height=230,
        )


def _thinned(reports: list[Report], most: int) -> list[Report]:
    """At most so many of the reports, the last among them, and of those with a held-out error as many."""
    held_out = [report for report in reports if report.held_out_error is not None]
    chosen = {report.step: report for part in (reports, held_out) for report in part[:: -max(1, -(-len(part) // most))]}
    return [chosen[step] for step in sorted(chosen)]
