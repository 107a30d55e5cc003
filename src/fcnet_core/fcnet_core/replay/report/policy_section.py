"""How far each policy's targets are from the recorded ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.replay.evaluation import Evaluation
from fcnet_core.replay.report.chart import Chart, Series
from fcnet_core.replay.report.recording_section import start
from fcnet_core.replay.report.table import number, table
from fcnet_core.robot import JOINT_NAMES

Array = npt.NDArray[np.float64]
EXCERPT = 3.0  # [s] shown joint by joint
LEFT_OUT = ("uncompared_steps", "lost_steps", "missing_steps")
QUANTILES = ("p50", "p95", "p99", "max")
EXPLAINED = """At every step of the recording each policy saw what the controller saw, was told the target that was in
truth sent before, and remembered what came before. The error is its target less the one that was sent. For the policy
that was recorded it must stay below 1e-5 rad; for another one it tells how differently it would act, not which is
better."""


def policy_section(evaluation: Evaluation) -> str:
    """The section's HTML."""
    policies = evaluation.figures["policies"]
    errors = {label: figures["action_error_rad"] for label, figures in policies.items()}
    rows = [
        [f"{label}: {policies[label]['model']}", str(error["steps"]), str(sum(error[name] for name in LEFT_OUT))]
        + [number(error[name]) for name in ("rmse", *QUANTILES)]
        for label, error in errors.items()
    ]
    heads = ["policy", "steps", "left out", "RMS", "median", "95 %", "99 %", "largest"]
    differences = [
        [pair.replace("-", " less "), str(figures["steps"])] + [number(figures[name]) for name in ("rmse", *QUANTILES)]
        for pair, figures in evaluation.figures["differences"].items()
    ]
    between = table(["policies", "steps", *heads[3:]], differences) if differences else ""
    return (
        f"<h2>Targets: policy against recording</h2><p>{EXPLAINED}</p>{table(heads, rows)}"
        f"<figure>{_over_time(evaluation)}</figure>{between}{_by_joint(errors)}{_excerpt(evaluation)}"
    )


def _over_time(evaluation: Evaluation) -> str:
    first = start(evaluation)
    series = [
        Series(replay.label, replay.loop.time - first, np.abs(replay.loop.error).max(axis=1), index + 1)
        for index, replay in enumerate(evaluation.replays)
        if len(replay.loop.time) and np.isfinite(replay.loop.error).any()
    ]
    if not series:
        return ""
    return Chart("Largest error of any joint", "time [s]", "error [rad]", series, logarithmic=True).svg()


def _by_joint(errors: dict[str, dict[str, dict[str, dict[str, float | None]]]]) -> str:
    heads = ["joint", *(f"{label} {name}" for label in errors for name in ("RMS", "99 %", "largest"))]
    rows = [
        [joint, *(number(errors[label]["joints"][joint][name]) for label in errors for name in ("rmse", "p99", "max"))]
        for joint in JOINT_NAMES
    ]
    return f"<h3>Error of each joint [rad]</h3>{table(heads, rows)}"


def _excerpt(evaluation: Evaluation) -> str:
    """Every joint's targets around the moment of the first policy's largest error."""
    loop, first = evaluation.replays[0].loop, start(evaluation)
    if not len(loop.time):
        return ""
    error = np.nan_to_num(np.abs(loop.error), nan=0.0).max(axis=1)
    middle = loop.time[int(error.argmax())]
    span = (middle - EXCERPT / 2, middle + EXCERPT / 2)
    charts = "".join(
        f"<figure>{_joint(evaluation, index, joint, span, first)}</figure>" for index, joint in enumerate(JOINT_NAMES)
    )
    return (
        f"<h3>Targets of each joint around {middle - first:.1f} s, where policy A differs most</h3>"
        f'<div class="joints">{charts}</div>'
    )


def _joint(evaluation: Evaluation, index: int, joint: str, span: tuple[float, float], first: float) -> str:
    series = []
    for number_, replay in enumerate(evaluation.replays):
        loop = replay.loop
        rows = (loop.time >= span[0]) & (loop.time <= span[1])
        if number_ == 0 and np.isfinite(loop.recorded[rows]).any():
            series.append(Series("sent", loop.time[rows] - first, loop.recorded[rows, index], 0))
        series.append(Series(replay.label, loop.time[rows] - first, loop.action[rows, index], number_ + 1))
    chart = Chart(joint.removesuffix("_joint"), "time [s]", "[rad]", series, width=340, height=170)
    return chart.svg()
