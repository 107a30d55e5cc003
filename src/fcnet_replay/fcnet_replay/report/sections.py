"""The sections of a report, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from html import escape

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES
from fcnet_replay.evaluation import Evaluation
from fcnet_replay.metrics import AXES, GAP, HIGH_FREQUENCY, LATE, spectrum, tilt
from fcnet_replay.report.chart import Chart, Series
from fcnet_replay.topic_reader import MODES

# Tables and lists of the page; everything that comes from a bag is escaped.

def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column names its rows."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def number(value: float | None, form: str = ".3g", unit: str = "", scale: float = 1.0) -> str:
    """A figure with its unit, or a dash where it is not known."""
    if value is None:
        return "–"
    return f"{value * scale:{form}}{unit}"


# What was recorded: facts, modes.

WIDTH, HEIGHT = 720, 46


def recording_section(evaluation: Evaluation) -> str:
    """The section's HTML."""
    notes, figures = evaluation.notes, evaluation.figures
    policy = notes.model_fingerprint[:16] + "…" if notes.model_fingerprint else "not noted in the bag"
    facts = {
        "bag": evaluation.bag,
        "begins": started(evaluation),
        "robot": figures["robot"],
        "recorded policy": f"{notes.model} {policy}".strip(),
        "revision of the suite": notes.git_revision or "not noted in the bag",
    }
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return (
        f'<h2>Recording</h2><div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'
        f"{_modes(evaluation)}"
    )


def started(evaluation: Evaluation) -> str:
    """When the recording began, UTC."""
    first = start(evaluation)
    if not 0 <= first < 4e9:
        return "an unknown time"
    return datetime.fromtimestamp(first, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def start(evaluation: Evaluation) -> float:
    """Time zero of the plots [s]."""
    run = evaluation.run
    return float(min(np.min(run.joints.received), np.min(run.imu.received)))


def _modes(evaluation: Evaluation) -> str:
    mode, modes_s = evaluation.run.mode, evaluation.figures["modes_s"]
    if not modes_s:
        return "<p>The controller's modes were not recorded.</p>"
    first, duration = start(evaluation), max(evaluation.figures["duration_s"], 1e-9)
    ends = np.append(mode.received[1:], first + duration)
    shown = list(zip(mode.modes, mode.received.tolist(), ends.tolist(), strict=True))[:2000]
    bars = []
    for name, begun, ended in shown:
        left, right = (WIDTH * min(max((time - first) / duration, 0.0), 1.0) for time in (begun, ended))
        bars.append(
            f'<rect class="c{MODES.index(name)}" x="{left:.1f}" y="2" width="{max(right - left, 1.0):.1f}" height="20">'
            f"<title>{name}</title></rect>"
        )
    legend, at = [], 0
    for name in modes_s:
        legend.append(f'<rect class="c{MODES.index(name)}" x="{at}" y="32" width="10" height="10"/>')
        legend.append(f'<text x="{at + 15}" y="41">{name}</text>')
        at += 40 + 7 * len(name)
    rows = [[name, f"{seconds:.2f}", f"{seconds / duration:.1%}"] for name, seconds in modes_s.items()]
    return (
        f'<h3>Modes of the controller</h3><figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="modes over time">{"".join(bars)}{"".join(legend)}</svg></figure>'
        f"{table(['mode', 'time [s]', 'share'], rows)}"
    )


# When messages came.

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


# What the robot did: commands, tilt, torque, limits.

NAMES = {
    "forward_m_s": ("Forward velocity", "[m/s]"),
    "sideways_m_s": ("Sideways velocity", "[m/s]"),
    "yaw_rate_rad_s": ("Yaw rate", "[rad/s]"),
}
TRACKING = """Measured is the mean over half a second, about one stride, within which a body always sways. A constant
difference is a bias that a better policy would not have."""
BODY = """Tilt is the angle of the trunk to gravity. Torque counts as a share of each joint's limit: short peaks at
foot fall are usual, a joint that stays at its limit is too weak for the task or blocked. Tracking error is measured
less commanded position; soft joints need some to push with."""


def motion_section(evaluation: Evaluation) -> str:
    """The section's HTML."""
    return f"<h2>Commands</h2>{_commands(evaluation)}<h2>Body and joints</h2><p>{BODY}</p>{_body(evaluation)}"


def _commands(evaluation: Evaluation) -> str:
    velocity, first = evaluation.velocity, start(evaluation)
    charts = []
    for index, axis in enumerate(AXES):
        series = [Series("commanded", velocity.time - first, velocity.commanded[:, index], 1)]
        if velocity.measured is not None:
            series.insert(0, Series("measured", velocity.time - first, velocity.measured[:, index], 0))
        title, unit = NAMES[axis]
        charts.append(f"<figure>{Chart(title, 'time [s]', unit, series, height=150).svg()}</figure>")
    tracking = evaluation.figures["tracking"]
    if tracking is None:
        return f"<p>How well commands were followed is not known: the bag has no odom.</p>{''.join(charts)}"
    rows = [
        [f"{NAMES[axis][0]} {NAMES[axis][1]}", number(figures["rmse"], ".3f"), number(figures["mean"], "+.3f")]
        for axis, figures in tracking.items()
    ]
    return f"<p>{TRACKING}</p>{table(['measured less commanded', 'RMS', 'mean'], rows)}{''.join(charts)}"


def _body(evaluation: Evaluation) -> str:
    run, robot, motion = evaluation.run, evaluation.robot, evaluation.figures["motion"]
    first = start(evaluation)
    tilted = Series("tilt", run.imu.stamp - first, np.degrees(tilt(run.imu.orientation)), 1)
    effort = np.abs(run.joints.effort) / robot.torque_limit
    hardest = Series("torque", run.joints.stamp - first, effort.max(axis=1), 1)
    limit = ("limit of the safety layer", float(np.degrees(robot.safety.max_tilt)))
    charts = [Chart("Tilt of the trunk", "time [s]", "[°]", [tilted], limit, zero=True)]
    if np.isfinite(hardest.y).any():
        title = "Torque of the hardest working joint"
        charts.append(Chart(title, "time [s]", "share of limit", [hardest], ("limit", 1.0), zero=True))
    torque = motion["torque_of_limit"]
    rows = [
        [joint, *(number(torque[joint][name], ".0%") for name in ("p50", "p95", "p99", "max"))] for joint in JOINT_NAMES
    ]
    facts = [
        ["a joint at its torque limit, share of time", number(motion["share_of_time_at_torque_limit"], ".1%")],
        [
            "a target at a joint's position limit, share of targets",
            number(motion["share_of_targets_at_position_limit"], ".1%"),
        ],
        ["tracking error of joints, RMS", number(motion["joint_tracking_error_rad"], ".3f", " rad")],
        ["tilt, 99 % of the time below", number(motion["tilt_rad"]["p99"], ".1f", "°", float(np.degrees(1.0)))],
    ]
    drawn = "".join(f"<figure>{chart.svg()}</figure>" for chart in charts)
    return (
        f"{drawn}{table(['figure', 'value'], facts)}<h3>Torque as a share of the limit</h3>"
        f"{table(['joint', 'median', '95 %', '99 %', 'largest'], rows)}"
    )


# How far each policy's targets are from the recorded ones.

Array = npt.NDArray[np.float64]
EXCERPT = 3.0  # [s] shown joint by joint
LEFT_OUT = ("uncompared_steps", "lost_steps", "missing_steps")
QUANTILES = ("p50", "p95", "p99", "max")
POLICY_EXPLAINED = """\
At every step of the recording each policy saw what the controller saw, was told the target that was in
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
        f"<h2>Targets: policy against recording</h2><p>{POLICY_EXPLAINED}</p>{table(heads, rows)}"
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


# How smooth targets are, and at which frequencies they move.

SMOOTHNESS_EXPLAINED = f"""\
Jerk is the third derivative of the targets; the share above {HIGH_FREQUENCY:g} Hz is motion that a leg
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
    figure = f"<figure>{_spectra(evaluation)}</figure>"
    return f"<h2>Smoothness</h2><p>{SMOOTHNESS_EXPLAINED}</p>{table(heads, rows)}{figure}"


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
