"""How smooth targets are, and at which frequencies they move."""

from __future__ import annotations

import numpy as np

from fcnet_core.replay.evaluation import Evaluation
from fcnet_core.replay.report.chart import Chart, Series
from fcnet_core.replay.report.table import number, table
from fcnet_core.replay.smoothness import HIGH_FREQUENCY, spectrum

EXPLAINED = f"""Jerk is the third derivative of the targets; the share above {HIGH_FREQUENCY:g} Hz is motion that a leg
cannot follow and that heats its motors. A walk has its power at its two to three strides a second and the first few
multiples of that; a flat tail that does not fall is noise or shaking. What was sent is measured by the same steps."""


def smoothness_section(evaluation: Evaluation) -> str:
    """The section's HTML."""
    policies = evaluation.figures["policies"]
    sent = policies[evaluation.replays[0].label]["recorded_smoothness"]
    measured = {"sent": sent} | {label: figures["smoothness"] for label, figures in policies.items()}
    rows = [
        [label, number(figures["jerk_rms_rad_s3"], ",.0f"), number(figures["high_frequency_share"], ".1%")]
        for label, figures in measured.items()
    ]
    heads = ["targets", "jerk, RMS [rad/s³]", f"power above {HIGH_FREQUENCY:g} Hz"]
    return f"<h2>Smoothness</h2><p>{EXPLAINED}</p>{table(heads, rows)}<figure>{_spectra(evaluation)}</figure>"


def _spectra(evaluation: Evaluation) -> str:
    series = []
    for index, replay in enumerate(evaluation.replays):
        loop = replay.loop
        if index == 0:
            series.append(_line("sent", loop.recorded, loop.cold, replay.period, 0))
        series.append(_line(replay.label, loop.action, loop.cold, replay.period, index + 1))
    shown = [line for line in series if np.nansum(line.y) > 0]
    if not shown:
        return ""
    chart = Chart("Spectrum, mean of all joints", "frequency [Hz]", "power [rad²]", shown, logarithmic=True)
    return chart.svg()


def _line(label: str, targets: np.ndarray, cold: np.ndarray, period: float, colour: int) -> Series:
    frequency, power = spectrum(targets, cold, period)
    return Series(label, frequency[1:], power[1:].mean(axis=1), colour)
