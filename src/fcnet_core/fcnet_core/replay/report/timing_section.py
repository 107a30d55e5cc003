"""When messages came."""

from __future__ import annotations

import numpy as np

from fcnet_core.replay.evaluation import Evaluation
from fcnet_core.replay.report.chart import Chart, Series
from fcnet_core.replay.report.recording_section import start
from fcnet_core.replay.report.table import number, table
from fcnet_core.replay.timing import GAP, LATE

EXPLAINED = f"""A gap is an interval of more than {GAP:g} times the usual one, by the stamps. A message is late when it
was received more than {1e3 * LATE:g} ms after its stamp. Latency counts from the stamp of the joint states that a
step saw to that of its targets. Gaps and latency beyond one control cycle disturb a walk."""


def timing_section(evaluation: Evaluation) -> str:
    """The section's HTML."""
    figures = evaluation.figures["timing"]
    rows = []
    for topic, told in figures["topics"].items():
        delay = told.get("delay_s", {})
        rows.append(
            [
                topic,
                str(told["messages"]),
                number(told.get("rate_hz"), ".1f"),
                number(told.get("gaps"), ".0f"),
                number(told.get("largest_gap_s"), ".1f", scale=1e3),
                number(told.get("out_of_order"), ".0f"),
                number(told.get("late"), ".0f"),
                number(delay.get("p50"), ".2f", scale=1e3),
                number(delay.get("p99"), ".2f", scale=1e3),
            ]
        )
    heads = ["topic", "messages", "rate [Hz]", "gaps", "longest interval [ms]", "out of order", "late"]
    heads += ["delay, median [ms]", "delay, 99 % [ms]"]
    latency = figures["state_to_target_s"]
    cells = [number(latency[name], ".2f", scale=1e3) for name in ("p50", "p95", "p99", "max")]
    return (
        f"<h2>Messages and latency</h2><p>{EXPLAINED}</p>{table(heads, rows)}"
        f"{table(['latency', 'median', '95 %', '99 %', 'largest'], [['state to target [ms]', *cells]])}"
        f"<figure>{_latency(evaluation)}</figure><figure>{_intervals(evaluation)}</figure>"
    )


def _latency(evaluation: Evaluation) -> str:
    steps = evaluation.run.steps
    if not len(steps.target_stamp):
        return ""
    time = steps.target_stamp - start(evaluation)
    latency = 1e3 * (steps.target_stamp - steps.joints_stamp)
    return Chart("Latency from state to target", "time [s]", "[ms]", [Series("A", time, latency, 1)], zero=True).svg()


def _intervals(evaluation: Evaluation) -> str:
    stamp = np.sort(evaluation.run.joints.stamp)
    if len(stamp) < 2:
        return ""
    interval = Series("joint_states", stamp[1:] - start(evaluation), 1e3 * np.diff(stamp), 1)
    return Chart("Interval between joint states", "time [s]", "[ms]", [interval], zero=True).svg()
