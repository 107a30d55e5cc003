"""The report of a replay as one HTML page that loads nothing: the verdict, and the sections that it rests on.

Every section is a list of elements in HTML; every text in them is escaped where its element is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path

import numpy as np

from fcnet_core.document import document, table, text
from fcnet_core.robot import JOINT_NAMES
from fcnet_replay.evaluation import Evaluation
from fcnet_replay.findings import findings
from fcnet_replay.metrics import AXES, GAP, HIGH_FREQUENCY, LATE, spectrum, tilt, velocities
from fcnet_replay.report.charts import Series, chart, timeline
from fcnet_replay.topic_map import MODES

VERDICT = {"good": "fine", "note": "note", "bad": "problem"}
EXCERPT = 3.0  # [s] shown joint by joint
MOST_MODES = 2000  # changes of mode shown
TIME = "time [s]"

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


def page(evaluation: Evaluation) -> str:
    """The report as one HTML document."""
    figures = evaluation.figures
    title = escape(f"Replay of {Path(figures['bag']).name}")
    policies = ", ".join(f"{replay.label}: {replay.name}" for replay in evaluation.replays) or "none"
    lead = f"{figures['robot']}, {figures['duration_s']:.1f} s from {_start_utc(evaluation)}. Policies: {policies}"
    verdict = "".join(
        f'<li class="{finding.level}"><b>{VERDICT[finding.level]}</b><span>{escape(finding.sentence)}</span></li>'
        for finding in findings(evaluation)
    )
    sections = {"Recording": _recording(evaluation)}
    if evaluation.replays:
        sections["Targets: policy against recording"] = _targets(evaluation)
        sections["Smoothness"] = _smoothness(evaluation)
    sections["Commands"] = _commands(evaluation)
    sections["Body and joints"] = _body(evaluation)
    sections["Messages and latency"] = _timing(evaluation)
    body = "".join(f"<h2>{escape(heading)}</h2>{''.join(elements)}" for heading, elements in sections.items())
    return document(
        title,
        f'<h1>{title}</h1><p class="lead">{escape(lead)}</p><ul class="verdict">{verdict}</ul>{body}'
        f"<footer>{FOOTER}</footer>",
    )


def _recording(evaluation: Evaluation) -> Iterator[str]:
    notes = evaluation.run.notes
    policy = notes.model_fingerprint[:16] + "…" if notes.model_fingerprint else "not noted in the bag"
    facts = [
        ("bag", evaluation.figures["bag"]),
        ("begins", _start_utc(evaluation)),
        ("robot", evaluation.figures["robot"]),
        ("recorded policy", f"{notes.model} {policy}".strip()),
        ("revision of the suite", notes.git_revision or "not noted in the bag"),
    ]
    yield table([], facts)
    mode, seconds = evaluation.run.mode, evaluation.figures["modes_s"]
    if not seconds:
        yield text("The controller's modes were not recorded.")
        return
    duration = max(evaluation.figures["duration_s"], 1e-9)
    begins = np.clip((mode.received - _start(evaluation)) / duration, 0.0, 1.0).tolist()
    spans = list(zip(mode.modes, begins, [*begins[1:], 1.0], strict=True))[:MOST_MODES]
    rows = [[name, f"{time:.2f}", f"{time / duration:.1%}"] for name, time in seconds.items()]
    yield text("Modes of the controller", "h3")
    yield timeline("modes over time", spans, {name: MODES.index(name) for name in seconds})
    yield table(["mode", TIME, "share"], rows)


def _targets(evaluation: Evaluation) -> Iterator[str]:
    policies, start = evaluation.figures["policies"], _start(evaluation)
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
        for pair, difference in evaluation.figures["differences"].items()
    ]
    joints = [
        [name, *(cell for error in errors.values() for cell in _numbers(error["joints"][name], ("rmse", "p99", "max")))]
        for name in JOINT_NAMES
    ]
    lines = [
        Series(replay.label, replay.time - start, np.abs(replay.error).max(axis=1), index)
        for index, replay in enumerate(evaluation.replays, start=1)
        if np.isfinite(replay.error).any()
    ]
    yield text(TARGETS)
    yield table(["policy", "steps", "left out", *heads], rows)
    yield chart("Largest error of any joint", TIME, "error [rad]", lines, logarithmic=True)
    yield table(["policies", "steps", *heads], differences)
    yield text("Error of each joint [rad]", "h3")
    yield table(["joint", *(f"{label} {name}" for label in errors for name in ("RMS", "99 %", "largest"))], joints)
    if len(evaluation.replays[0].time):
        yield from _excerpt(evaluation)


def _excerpt(evaluation: Evaluation) -> Iterator[str]:
    """Every joint's targets around the time of the first policy's largest error."""
    first, start = evaluation.replays[0], _start(evaluation)
    middle = first.time[int(np.nan_to_num(np.abs(first.error)).max(axis=1).argmax())]
    targets = [("sent", first.time, first.recorded)]
    targets += [(replay.label, replay.time, replay.action) for replay in evaluation.replays]
    lines: list[list[Series]] = [[] for _ in JOINT_NAMES]
    for colour, (label, time, target) in enumerate(targets):
        near = np.abs(time - middle) <= EXCERPT / 2
        for joint, series in enumerate(lines):
            if label != "sent" or np.isfinite(target[near]).any():
                series.append(Series(label, time[near] - start, target[near, joint], colour))
    charts = [
        chart(joint.removesuffix("_joint"), TIME, "[rad]", series, width=340, height=170)
        for joint, series in zip(JOINT_NAMES, lines, strict=True)
    ]
    yield text(f"Targets of each joint around {middle - start:.1f} s, where policy A differs most", "h3")
    yield f'<div class="grid">{"".join(charts)}</div>'


def _smoothness(evaluation: Evaluation) -> Iterator[str]:
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
    yield text(SMOOTHNESS)
    yield table(["targets", "jerk, RMS [rad/s³]", f"power above {HIGH_FREQUENCY:g} Hz"], rows)
    yield chart("Spectrum, mean of all joints", "frequency [Hz]", "power [rad²]", lines, logarithmic=True)


def _commands(evaluation: Evaluation) -> Iterator[str]:
    velocity, tracking = velocities(evaluation.run), evaluation.figures["tracking"]
    if tracking is None:
        yield text("How well commands were followed is not known: the bag has no odom.")
    else:
        rows = [
            [" ".join(VELOCITIES[axis]), _number(figures["rmse"], ".3f"), _number(figures["mean"], "+.3f")]
            for axis, figures in tracking.items()
        ]
        yield text(TRACKING)
        yield table(["measured less commanded", "RMS", "mean"], rows)
    time = velocity.time - _start(evaluation)
    for index, (title, unit) in enumerate(VELOCITIES.values()):
        measured = [] if velocity.measured is None else [Series("measured", time, velocity.measured[:, index], 0)]
        commanded = Series("commanded", time, velocity.commanded[:, index], 1)
        yield chart(title, TIME, unit, [*measured, commanded], height=150)


def _body(evaluation: Evaluation) -> Iterator[str]:
    run, robot, motion, start = evaluation.run, evaluation.robot, evaluation.figures["motion"], _start(evaluation)
    tilted = Series("tilt", run.imu.stamp - start, np.degrees(tilt(run.imu.orientation)), 1)
    effort = (np.abs(run.joints.effort) / robot.torque_limit).max(axis=1)
    hardest = Series("torque", run.joints.stamp - start, effort, 1)
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
    yield text(BODY)
    yield chart("Tilt of the trunk", TIME, "[°]", [tilted], max_tilt, zero=True)
    yield chart("Torque of the hardest working joint", TIME, "share of limit", [hardest], ("limit", 1.0), zero=True)
    yield table(["figure", "value"], facts)
    yield text("Torque as a share of the limit", "h3")
    yield table(["joint", *QUANTILES.values()], torque)


def _timing(evaluation: Evaluation) -> Iterator[str]:
    run, figures, start = evaluation.run, evaluation.figures["timing"], _start(evaluation)
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
    delay = Series("A", run.steps.target_stamp - start, latency, 1)
    interval = Series("joint_states", stamp[1:] - start, 1e3 * np.diff(stamp), 1)
    yield text(TIMING)
    yield table([*heads, "delay, median [ms]", "delay, 99 % [ms]"], rows)
    yield table(["latency", *QUANTILES.values()], [["state to target [ms]", *quantiles]])
    yield chart("Latency from state to target", TIME, "[ms]", [delay], zero=True)
    yield chart("Interval between joint states", TIME, "[ms]", [interval], zero=True)


def _start(evaluation: Evaluation) -> float:
    """Time zero of the plots [s]."""
    run = evaluation.run
    return float(min(np.min(run.joints.received), np.min(run.imu.received)))


def _start_utc(evaluation: Evaluation) -> str:
    start = _start(evaluation)
    if not 0 <= start < 4e9:
        return "an unknown time"
    return datetime.fromtimestamp(start, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _number(value: float | None, form: str = ".3g", unit: str = "", scale: float = 1.0) -> str:
    """A figure with its unit, or a dash where it is not known."""
    return "–" if value is None else f"{value * scale:{form}}{unit}"


def _numbers(
    figures: Mapping[str, float | None], names: Sequence[str] | Mapping[str, str], form: str = ".3g", scale: float = 1.0
) -> list[str]:
    return [_number(figures.get(name), form, scale=scale) for name in names]
