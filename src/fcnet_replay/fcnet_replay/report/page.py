"""The report of a replay as one HTML page: the verdict, and the sections that it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape
from pathlib import Path

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import JOINT_NAMES
from fcnet_replay.evaluation import Evaluation
from fcnet_replay.findings import findings
from fcnet_replay.metrics import AXES, GAP, HIGH_FREQUENCY, LATE, spectrum, tilt
from fcnet_replay.report.elements import Chart, Element, Grid, Series, Table, Text, Timeline
from fcnet_replay.topic_map import MODES

STYLE = Path(__file__).with_name("page.css")
VERDICT = {"good": "fine", "note": "note", "bad": "problem"}
EXCERPT = 3.0  # [s] shown joint by joint
MOST_MODES = 2000  # changes of mode shown

QUANTILES = {"p50": "median", "p95": "95 %", "p99": "99 %", "max": "largest"}
VELOCITIES = dict(
    zip(AXES, (("Forward velocity", "[m/s]"), ("Sideways velocity", "[m/s]"), ("Yaw rate", "[rad/s]")), strict=True)
)
FOOTER = """Made by fcnet replay. Times count from the first message; all angles are of joints in the order hip, thigh,
calf of FR, FL, RR, RL."""
TARGETS = """At every step of the recording each policy saw what the controller saw, was given the target that was
really sent before, and remembered what came before. The error is its target less the one that was sent. For the policy
that was recorded it must stay below 1e-5 rad; for another one it shows how differently it would act, not which is
better."""
SMOOTHNESS = f"""Jerk is the third derivative of the targets; the share above {HIGH_FREQUENCY:g} Hz is motion that a leg
cannot follow and that heats its motors. A walk has its power at its two to three strides a second and the first few
multiples of that; a flat tail that does not fall is noise or shaking. What was sent is measured by the same steps."""
TRACKING = """Measured is the mean over half a second, about one stride, within which a body always sways. A constant
difference is a bias that a better policy would not have."""
BODY = """Tilt is the angle of the trunk to gravity. Torque counts as a share of each joint's limit: short peaks at
foot fall are usual, a joint that stays at its limit is too weak for the task or blocked. Tracking error is measured
less commanded position; soft joints need some to push with."""
TIMING = f"""A gap is an interval of more than {GAP:g} times the usual one, by the stamps. A message is late when it
was received more than {1e3 * LATE:g} ms after its stamp. Latency counts from the stamp of the joint states that a
step saw to that of its targets. Gaps and latency beyond one control cycle disturb a walk."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    elements: Sequence[Element]


def page(evaluation: Evaluation) -> str:
    """The report as one HTML document that loads nothing."""
    title = escape(f"Replay of {Path(evaluation.bag).name}")
    policies = ", ".join(f"{replay.label}: {replay.name}" for replay in evaluation.replays) or "none"
    robot, duration = evaluation.figures["robot"], evaluation.figures["duration_s"]
    lead = f"{robot}, {duration:.1f} s from {_start_utc(evaluation)}. Policies: {policies}"
    verdict = "".join(
        f'<li class="{finding.level}"><b>{VERDICT[finding.level]}</b><span>{escape(finding.sentence)}</span></li>'
        for finding in findings(evaluation)
    )
    body = "".join(
        f"<h2>{escape(section.title)}</h2>{''.join(element.html() for element in section.elements)}"
        for section in _sections(evaluation)
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{STYLE.read_text()}</style></head><body><main>"
        f'<h1>{title}</h1><p class="lead">{escape(lead)}</p><ul class="verdict">{verdict}</ul>{body}'
        f"<footer>{FOOTER}</footer></main></body></html>"
    )


def _sections(evaluation: Evaluation) -> Iterator[Section]:
    yield _recording(evaluation)
    if evaluation.replays:
        yield _targets(evaluation)
        yield _smoothness(evaluation)
    yield _commands(evaluation)
    yield _body(evaluation)
    yield _timing(evaluation)


def _recording(evaluation: Evaluation) -> Section:
    notes = evaluation.run.notes
    policy = notes.model_fingerprint[:16] + "…" if notes.model_fingerprint else "not noted in the bag"
    facts = [
        ("bag", evaluation.bag),
        ("begins", _start_utc(evaluation)),
        ("robot", evaluation.figures["robot"]),
        ("recorded policy", f"{notes.model} {policy}".strip()),
        ("revision of the suite", notes.git_revision or "not noted in the bag"),
    ]
    return Section("Recording", [Table([], facts), *_modes(evaluation)])


def _modes(evaluation: Evaluation) -> Iterator[Element]:
    mode, seconds = evaluation.run.mode, evaluation.figures["modes_s"]
    if not seconds:
        yield Text("The controller's modes were not recorded.")
        return
    duration = max(evaluation.figures["duration_s"], 1e-9)
    begins = np.clip((mode.received - _start(evaluation)) / duration, 0.0, 1.0).tolist()
    spans = list(zip(mode.modes, begins, [*begins[1:], 1.0], strict=True))[:MOST_MODES]
    yield Text("Modes of the controller", "h3")
    yield Timeline("modes over time", spans, {name: MODES.index(name) for name in seconds})
    yield Table(
        ["mode", "time [s]", "share"],
        [[name, f"{time:.2f}", f"{time / duration:.1%}"] for name, time in seconds.items()],
    )


def _targets(evaluation: Evaluation) -> Section:
    policies, figures = evaluation.figures["policies"], evaluation.figures
    errors = {label: policy["action_error_rad"] for label, policy in policies.items()}
    left_out = ("uncompared_steps", "lost_steps", "missing_steps")
    sizes, heads = ("rmse", *QUANTILES), ["RMS", *QUANTILES.values()]
    rows = [
        [f"{label}: {policies[label]['model']}", str(error["steps"]), str(sum(error[name] for name in left_out))]
        + _numbers(error, sizes)
        for label, error in errors.items()
    ]
    differences = [
        [pair.replace("-", " less "), str(difference["steps"]), *_numbers(difference, sizes)]
        for pair, difference in figures["differences"].items()
    ]
    joints = [[joint] for joint in JOINT_NAMES]
    for error in errors.values():
        for row in joints:
            row += _numbers(error["joints"][row[0]], ("rmse", "p99", "max"))
    lines = [
        Series(replay.label, _time(evaluation, replay.time), np.abs(replay.error).max(axis=1), index)
        for index, replay in enumerate(evaluation.replays, start=1)
        if np.isfinite(replay.error).any()
    ]
    return Section(
        "Targets: policy against recording",
        [
            Text(TARGETS),
            Table(["policy", "steps", "left out", *heads], rows),
            Chart("Largest error of any joint", "time [s]", "error [rad]", lines, logarithmic=True),
            Table(["policies", "steps", *heads], differences),
            Text("Error of each joint [rad]", "h3"),
            Table(["joint", *(f"{label} {name}" for label in errors for name in ("RMS", "99 %", "largest"))], joints),
            *_excerpt(evaluation),
        ],
    )


def _excerpt(evaluation: Evaluation) -> Iterator[Element]:
    """Every joint's targets around the time of the first policy's largest error."""
    first = evaluation.replays[0]
    if not len(first.time):
        return
    middle = first.time[int(np.nan_to_num(np.abs(first.error)).max(axis=1).argmax())]
    lines: list[list[Series]] = [[] for _ in JOINT_NAMES]
    for index, replay in enumerate(evaluation.replays):
        rows = np.abs(replay.time - middle) <= EXCERPT / 2
        time = _time(evaluation, replay.time[rows])
        for joint, series in enumerate(lines):
            if index == 0 and np.isfinite(first.recorded[rows]).any():
                series.append(Series("sent", time, first.recorded[rows, joint], 0))
            series.append(Series(replay.label, time, replay.action[rows, joint], index + 1))
    begin = middle - _start(evaluation)
    yield Text(f"Targets of each joint around {begin:.1f} s, where policy A differs most", "h3")
    yield Grid(
        [
            Chart(joint.removesuffix("_joint"), "time [s]", "[rad]", series, width=340, height=170)
            for joint, series in zip(JOINT_NAMES, lines, strict=True)
        ]
    )


def _smoothness(evaluation: Evaluation) -> Section:
    policies, first = evaluation.figures["policies"], evaluation.replays[0]
    measured = {"sent": policies[first.label]["recorded_smoothness"]}
    measured |= {label: figures["smoothness"] for label, figures in policies.items()}
    rows = [
        [label, _number(figures["jerk_rms_rad_s3"], ",.0f"), _number(figures["high_frequency_share"], ".1%")]
        for label, figures in measured.items()
    ]
    targets = [("sent", first, first.recorded)]
    targets += [(replay.label, replay, replay.action) for replay in evaluation.replays]
    lines = []
    for colour, (label, replay, target) in enumerate(targets):
        frequency, power = spectrum(target, replay.cold, replay.period)
        if np.nansum(power[1:]) > 0:
            lines.append(Series(label, frequency[1:], power[1:].mean(axis=1), colour))
    return Section(
        "Smoothness",
        [
            Text(SMOOTHNESS),
            Table(["targets", "jerk, RMS [rad/s³]", f"power above {HIGH_FREQUENCY:g} Hz"], rows),
            Chart("Spectrum, mean of all joints", "frequency [Hz]", "power [rad²]", lines, logarithmic=True),
        ],
    )


def _commands(evaluation: Evaluation) -> Section:
    velocity, tracking = evaluation.velocity, evaluation.figures["tracking"]
    time = _time(evaluation, velocity.time)
    charts = []
    for index, (title, unit) in enumerate(VELOCITIES.values()):
        lines = [Series("commanded", time, velocity.commanded[:, index], 1)]
        if velocity.measured is not None:
            lines.insert(0, Series("measured", time, velocity.measured[:, index], 0))
        charts.append(Chart(title, "time [s]", unit, lines, height=150))
    if tracking is None:
        unknown = Text("How well commands were followed is not known: the bag has no odom.")
        return Section("Commands", [unknown, *charts])
    rows = [
        [" ".join(VELOCITIES[axis]), _number(figures["rmse"], ".3f"), _number(figures["mean"], "+.3f")]
        for axis, figures in tracking.items()
    ]
    return Section("Commands", [Text(TRACKING), Table(["measured less commanded", "RMS", "mean"], rows), *charts])


def _body(evaluation: Evaluation) -> Section:
    run, robot, motion = evaluation.run, evaluation.robot, evaluation.figures["motion"]
    tilted = Series("tilt", _time(evaluation, run.imu.stamp), np.degrees(tilt(run.imu.orientation)), 1)
    effort = (np.abs(run.joints.effort) / robot.torque_limit).max(axis=1)
    hardest = Series("torque", _time(evaluation, run.joints.stamp), effort, 1)
    max_tilt = ("limit of the safety layer", float(np.degrees(robot.safety.max_tilt)))
    facts = [
        ["a joint at its torque limit, share of time", _number(motion["share_of_time_at_torque_limit"], ".1%")],
        [
            "a target at a joint's position limit, share of targets",
            _number(motion["share_of_targets_at_position_limit"], ".1%"),
        ],
        ["tracking error of joints, RMS", _number(motion["joint_tracking_error_rad"], ".3f", " rad")],
        ["tilt, 99 % of the time below", _number(motion["tilt_rad"]["p99"], ".1f", "°", float(np.degrees(1.0)))],
    ]
    torque = [[joint, *_numbers(motion["torque_of_limit"][joint], QUANTILES, ".0%")] for joint in JOINT_NAMES]
    torque_title = "Torque of the hardest working joint"
    return Section(
        "Body and joints",
        [
            Text(BODY),
            Chart("Tilt of the trunk", "time [s]", "[°]", [tilted], max_tilt, zero=True),
            Chart(torque_title, "time [s]", "share of limit", [hardest], ("limit", 1.0), zero=True),
            Table(["figure", "value"], facts),
            Text("Torque as a share of the limit", "h3"),
            Table(["joint", *QUANTILES.values()], torque),
        ],
    )


def _timing(evaluation: Evaluation) -> Section:
    run, figures = evaluation.run, evaluation.figures["timing"]
    rows = [
        [
            topic,
            str(timing["messages"]),
            _number(timing.get("rate_hz"), ".1f"),
            _number(timing.get("gaps"), ".0f"),
            _number(timing.get("largest_gap_s"), ".1f", scale=1e3),
            _number(timing.get("out_of_order"), ".0f"),
            _number(timing.get("late"), ".0f"),
            *_numbers(timing.get("delay_s", {}), ("p50", "p99"), ".2f", scale=1e3),
        ]
        for topic, timing in figures["topics"].items()
    ]
    heads = ["topic", "messages", "rate [Hz]", "gaps", "longest interval [ms]", "out of order", "late"]
    quantiles = _numbers(figures["state_to_target_s"], QUANTILES, ".2f", scale=1e3)
    latency = 1e3 * (run.steps.target_stamp - run.steps.joints_stamp)
    stamp = np.sort(run.joints.stamp)
    delay = Series("A", _time(evaluation, run.steps.target_stamp), latency, 1)
    interval = Series("joint_states", _time(evaluation, stamp[1:]), 1e3 * np.diff(stamp), 1)
    return Section(
        "Messages and latency",
        [
            Text(TIMING),
            Table([*heads, "delay, median [ms]", "delay, 99 % [ms]"], rows),
            Table(["latency", *QUANTILES.values()], [["state to target [ms]", *quantiles]]),
            Chart("Latency from state to target", "time [s]", "[ms]", [delay], zero=True),
            Chart("Interval between joint states", "time [s]", "[ms]", [interval], zero=True),
        ],
    )


def _start(evaluation: Evaluation) -> float:
    """Time zero of the plots [s]."""
    run = evaluation.run
    return float(min(np.min(run.joints.received), np.min(run.imu.received)))


def _start_utc(evaluation: Evaluation) -> str:
    start = _start(evaluation)
    if not 0 <= start < 4e9:
        return "an unknown time"
    return datetime.fromtimestamp(start, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _time(evaluation: Evaluation, stamps: Array) -> Array:
    return stamps - _start(evaluation)


def _number(value: float | None, form: str = ".3g", unit: str = "", scale: float = 1.0) -> str:
    """A figure with its unit, or a dash where it is not known."""
    return "–" if value is None else f"{value * scale:{form}}{unit}"


def _numbers(
    figures: Mapping[str, float | None], names: Sequence[str] | Mapping[str, str], form: str = ".3g", scale: float = 1.0
) -> list[str]:
    return [_number(figures.get(name), form, scale=scale) for name in names]
