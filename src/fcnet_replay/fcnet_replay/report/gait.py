"""The gait of a run: contacts of the feet over time, and figures of each leg."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.document import table, text
from fcnet_core.document.plots import Bars, Plot
from fcnet_core.names import Mode
from fcnet_core.robot import LEGS
from fcnet_replay.report.frame import GROUP, TIME, TimePlots, number, numbers
from fcnet_replay.report.signals import Signals, spans_of

MODE_COLOURS = {
    Mode.PASSIVE.value: 0,
    Mode.STANDING_UP.value: 5,
    Mode.STANDING.value: 4,
    Mode.WALKING.value: 3,
    Mode.LYING_DOWN.value: 5,
    Mode.RECOVERING.value: 2,
    Mode.FAULT.value: 2,
}
LEAST = 1.0  # [s] of walking, below which a gait has no figures
WITHOUT = "The gait is not known: the run has no torques, by which contacts are estimated."
NO_LEGS = "Contacts are not known: the robot's file describes no legs."
ESTIMATED = "Coloured: the foot is in contact, by an estimate from joints, torques and IMU."


def gait(view: TimePlots) -> Iterator[str]:
    """Yield the diagram of modes and contacts, and a table of each leg's figures while it walks."""
    signals, bars, rows = view.signals, [], []
    modes = signals.mode_spans()
    for name, spans in modes.items():
        bars.append(Bars(name.replace("_", " "), spans, MODE_COLOURS.get(name, 0)))
    rows += ["mode"] if modes else []
    known = signals.has_legs and signals.has_torque
    if known:
        time = np.sort(signals.joint_time)
        for leg, name in enumerate(LEGS):
            bars.append(Bars("in contact", spans_of(time, signals.contact[:, leg]), 1, len(rows)))
            rows.append(name)
    yield text(ESTIMATED if known else WITHOUT if signals.has_legs else NO_LEGS)
    ends, height = signals.grid.values[[0, -1]], 60 + 24 * len(rows)
    yield view.plots.element(
        Plot("Modes and contacts", TIME, "", ends, bars=bars, rows=rows, group=GROUP, height=height)
    )
    if not known:
        return
    figures = gait_figures(signals)
    if figures is None:
        yield text(f"The robot walks for less than {LEAST:g} s: the gait has no figures.")
        return
    cells = [
        [name, number(leg["duty"], ".1f", " %", 100.0), number(leg["touchdowns_per_s"], ".2f")]
        + numbers(leg, ("stance_s", "swing_s"), ".3f")
        for name, leg in figures.items()
    ]
    yield table(["leg", "duty", "touchdowns per second", "stance [s]", "swing [s]"], cells)


def gait_figures(signals: Signals) -> dict[str, Any] | None:
    """Return duty, touchdowns per second, mean stance and swing [s] of each leg; None if the robot walks for less than
    LEAST.
    """
    time, walking, dt = signals.joint_time[signals.order], signals.walking[signals.order], signals.walking_time
    total = float(dt.sum())
    if total < LEAST:
        return None
    legs = {}
    for leg, name in enumerate(LEGS):
        contact = signals.contact[:, leg]
        landed = contact & ~np.append(True, contact[:-1]) & walking
        legs[name] = {
            "duty": float((dt * contact).sum() / total),
            "touchdowns_per_s": float(landed.sum() / total),
            "stance_s": _mean_length(time, contact, walking),
            "swing_s": _mean_length(time, ~contact, walking),
        }
    return legs


def _mean_length(time: Array, holds: Mask, walking: Mask) -> float | None:
    """Return the mean length [s] of the spans that lie within walking."""
    spans = spans_of(time, holds & walking)
    edge = spans_of(time, walking)
    whole = ~np.isin(spans[:, 0], edge[:, 0]) & ~np.isin(spans[:, 1], edge[:, 1])
    return float(np.diff(spans[whole], axis=1).mean()) if whole.any() else None
