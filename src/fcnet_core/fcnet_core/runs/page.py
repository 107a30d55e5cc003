"""Training runs as one HTML page that loads nothing: curves to zoom into, and tables. Below 5 MB."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from html import escape
from typing import Any

from fcnet_core.document import constant, document, plotly, table, text
from fcnet_core.runs.comparison import sections, standing
from fcnet_core.runs.folder import Report, TrainingRun

RELOAD = 5.0  # [s] after which a live page reads itself again
MOST_POINTS = 2000  # of a curve of all runs together
PANELS = {  # an entry of Report: what its axis says, and whether that is logarithmic
    "loss": ("loss", True),
    "held_out_error": ("held-out error [rad]", True),
    "learning_rate": ("learning rate", False),
}
GAP = 0.06  # between panels, as a share of the height
STYLE = "#curves { height: 780px; } @media print { #curves { break-inside: avoid; } }"
COLOURS = 6  # of document.css
ABOUT = """Drag over a part to see it larger; a double click shows all again. The loss is of the training data, in the
network's unit, the mean since the report before. The held-out error is the root mean square on sequences that
training never sees."""
LIVE = f"""This page reads itself again every {RELOAD:g} seconds while the training goes on, except while a part of the
curves is shown larger."""
SCRIPT = """
const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--ink");
for (const trace of traces) {
  const colour = style.getPropertyValue(trace.colour);
  trace.line = {color: colour, width: 1.6}; trace.marker = {color: colour, size: 5};
}
layout.modebar = {bgcolor: "rgba(0,0,0,0)", color: style.getPropertyValue("--soft"), activecolor: ink};
layout.font = {color: ink, family: "system-ui, sans-serif", size: 12};
for (const name in layout) if (/^[xy]axis/.test(name)) layout[name].gridcolor = style.getPropertyValue("--rule");
const plot = document.getElementById("curves");
const buttons = [["toImage", "zoom2d", "pan2d", "resetScale2d"]];
Plotly.newPlot(plot, traces, layout, {responsive: true, displaylogo: false, modeBarButtons: buttons});
if (live) setInterval(() => plot.layout.xaxis.autorange && plot.layout.yaxis.autorange && location.reload(), reload);
"""


def page(runs: Sequence[TrainingRun], live: bool = False) -> str:
    """The page; a live one reads itself again. Raises FcnetError where plotly is not installed."""
    names = [run.name for run in runs]
    title = escape(f"Training of {names[0]}" if len(runs) == 1 else f"{len(runs)} training runs")
    written = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    lead = f"{'; '.join(map(standing, runs)) if len(runs) == 1 else ', '.join(names)}. Written at {written}."
    tables = {heading: table(["", *names], rows) for heading, rows in sections(runs).items()}
    body = (
        f'<h1>{title}</h1><p class="lead">{escape(lead)}</p>{text(LIVE) if live else ""}'
        f'<div id="curves" role="figure" aria-label="{escape(_description(runs))}"></div>{text(ABOUT)}'
        "<noscript><p>The curves need JavaScript; the numbers are in metrics.csv.</p></noscript>"
        f"{''.join(text(heading, 'h2') + content for heading, content in tables.items())}"
    )
    facts = {"traces": _traces(runs), "layout": _layout(len(runs)), "live": live, "reload": 1000 * RELOAD}
    constants = "".join(constant(name, value) for name, value in facts.items())
    return document(title, body, STYLE, [plotly(), constants + SCRIPT])


def _description(runs: Sequence[TrainingRun]) -> str:
    """The curves in words."""
    curves = ", ".join(label for label, _ in PANELS.values())
    ends = "; ".join(f"{run.name} ends at loss {run.reports[-1].loss:.4g}" for run in runs if run.reports)
    return f"{curves} over optimiser steps. {ends}"


def _traces(runs: Sequence[TrainingRun]) -> list[dict[str, Any]]:
    traces = []
    for number, run in enumerate(runs):
        for panel, entry in enumerate(PANELS, start=1):
            known = [report for report in run.reports if getattr(report, entry) is not None]
            shown = _thinned(known, MOST_POINTS // len(runs))
            traces.append(
                {
                    "name": run.name,
                    "x": [report.step for report in shown],
                    "y": [float(f"{getattr(report, entry):.5g}") for report in shown],
                    "yaxis": "y" if panel == 1 else f"y{panel}",
                    "mode": "lines+markers" if len(shown) < 60 else "lines",
                    "legendgroup": run.name,
                    "showlegend": panel == 1 and len(runs) > 1,
                    "colour": f"--c{1 + number % (COLOURS - 1)}",
                }
            )
    return traces


def _layout(count: int) -> dict[str, Any]:
    """Panels below each other over one axis of steps."""
    height = (1.0 + GAP) / len(PANELS)
    axes = {}
    for number, (label, logarithmic) in enumerate(PANELS.values(), start=1):
        top = 1.0 - (number - 1) * height
        axes["yaxis" if number == 1 else f"yaxis{number}"] = {
            "title": {"text": label},
            "type": "log" if logarithmic else "linear",
            "domain": [max(0.0, top - height + GAP), top],
            **({"nticks": 4, "tickformat": "~g"} if logarithmic else {}),  # whole numbers, not their first digit alone
            "rangemode": "normal" if logarithmic else "tozero",
        }
    return {
        **axes,
        "xaxis": {"title": {"text": "optimiser step"}, "anchor": f"y{len(PANELS)}", "rangemode": "tozero"},
        "hovermode": "x unified",
        "margin": {"l": 70, "r": 10, "t": 10, "b": 50},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        "showlegend": count > 1,
    }


def _thinned(reports: list[Report], most: int) -> list[Report]:
    """At most so many of the reports, the last among them."""
    return reports[:: -max(1, -(-len(reports) // most))][::-1]
