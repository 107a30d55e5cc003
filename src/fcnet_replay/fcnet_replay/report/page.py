"""The report of a replay as one HTML page that loads nothing: a verdict, and the sections that support it."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path

import numpy as np

from fcnet_core.document import Page, scene, table, text
from fcnet_core.document.plots import Line, Plots
from fcnet_core.names import JOINT_STATES
from fcnet_replay.evaluation import ReplayEvaluation
from fcnet_replay.metrics import HIGH_FREQUENCY
from fcnet_replay.report.findings import COUNTS, LEVELS, findings, modes_text, number, numbers
from fcnet_replay.report.motion import JOINTS, QUANTILES, RADIAN, Section, motion_sections
from fcnet_replay.report.signals import Signals

SPREAD = {"rmse": "RMS", **QUANTILES}
MILLISECOND = 0.005  # [ms] to which latencies are rounded
SCRIPT, STYLE = (Path(__file__).with_name(f"report.{kind}") for kind in ("js", "css"))
UNNOTED = "not noted in the bag"
DIFFERENCE = """At every step each policy saw what the controller saw, was given the target that was really sent before,
and remembered what came before. Of the recorded policy the error stays below 1e-5 rad; of another one it says how
differently it would act, not which is better."""


def page(evaluation: ReplayEvaluation) -> str:
    """Return the report as one HTML document."""
    figures, signals = evaluation.figures, Signals(evaluation.run, evaluation.robot)
    policies = ", ".join(f"{replay.label}: {replay.name}" for replay in evaluation.replays) or "none"
    made = Page(f"Replay of {Path(figures['bag']).name}")
    begin = "an unknown time"
    if 0 <= signals.start < 4e9:
        begin = datetime.fromtimestamp(signals.start, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    lead = f"{figures['robot']}, {figures['duration_s']:.1f} s from {begin}. Policies: {policies}"
    verdict = (
        f'<li class="{finding.level}"><b>{LEVELS[finding.level]}</b><span>{escape(finding.sentence)}</span></li>'
        for finding in findings(evaluation)
    )
    made.body += [text(made.title, "h1"), f'<p class="lead">{escape(lead)}</p>']
    made.body.append(f'<ul class="verdict">{"".join(verdict)}</ul>')
    sections = motion_sections(signals)
    if evaluation.replays:
        dict(sections)[JOINTS].extend(_smoothness(evaluation))
    sections.append(("Timing", list(_timing(evaluation, signals))))
    if any(not policy["action_error_rad"]["agrees"] for policy in figures["policies"].values()):
        sections.append(("Policy difference", list(_difference(evaluation, signals))))
    sections.append(("Recording", list(_recording(evaluation))))
    add_sections(made, sections, signals.plots)
    made.body.append("<footer>Made by fcnet replay.</footer>")
    return made.html()


def add_sections(made: Page, sections: Sequence[Section], plots: Plots) -> None:
    """Append headings and their elements to the body of the page, with the scripts of plots and playback."""
    plots.add_to(made, SCRIPT.read_text(encoding="utf-8"))
    made.style += [path.read_text(encoding="utf-8") for path in (scene.STYLE, STYLE)]
    made.modules |= {path.name: path.read_text(encoding="utf-8") for path in scene.SCRIPTS}
    made.body.append("<noscript><p>Plots and playback need JavaScript; the figures in tables do not.</p></noscript>")
    for heading, elements in sections:
        made.body += [text(heading, "h2"), *elements]


def _timing(evaluation: ReplayEvaluation, signals: Signals) -> Iterator[str]:
    run, figures = evaluation.run, evaluation.figures["timing"]
    rows = []
    for topic, timing in figures["topics"].items():
        rate, longest = number(timing.get("rate_hz"), ".1f"), number(timing.get("largest_gap_s"), ".1f", scale=1e3)
        delays = numbers(timing.get("delay_s", {}), ("p50", "p99"), ".2f", scale=1e3)
        rows.append([topic, str(timing["messages"]), rate, *numbers(timing, COUNTS, ".0f"), longest, *delays])
    heads = ["topic", "messages", "rate [Hz]", "gaps", "late", "out of order", "longest interval [ms]"]
    quantiles = numbers(figures["state_to_target_s"], QUANTILES, ".2f", scale=1e3)
    yield text("Gaps and latency beyond one control cycle disturb a walk.")
    yield table([*heads, "delay, median [ms]", "delay, 99 % [ms]"], rows)
    if len(run.steps.target_stamp):
        yield table(["", *QUANTILES.values()], [["latency [ms]", *quantiles]])
        sent = run.steps.target_stamp
        latency = 1e3 * (sent - run.steps.joints_stamp)
        lines = [signals.line("state to target", signals.at(sent), latency, 0, MILLISECOND)]
        yield signals.plot("Latency", "ms", lines, zero=True)
    else:
        yield text("Latency is not known: the bag has no policy_step.")
    stamp = run.joints.stamp
    lines = [signals.line(JOINT_STATES.name, signals.at(stamp[1:]), 1e3 * np.diff(stamp), 0, MILLISECOND)]
    yield signals.plot("Interval between joint states", "ms", lines, zero=True)


def _difference(evaluation: ReplayEvaluation, signals: Signals) -> Iterator[str]:
    policies = evaluation.figures["policies"]
    errors = {label: policy["action_error_rad"] for label, policy in policies.items()}
    left_out = ("uncompared_steps", "lost_steps", "missing_steps")
    rows = [
        [f"{label}: {policies[label]['model']}", str(error["steps"]), str(sum(error[name] for name in left_out))]
        + numbers(error, SPREAD)
        for label, error in errors.items()
    ]
    between = [
        [pair.replace("-", " less "), str(difference["steps"]), *numbers(difference, SPREAD)]
        for pair, difference in evaluation.figures["differences"].items()
    ]
    yield text(DIFFERENCE)
    yield table(["error [rad]", "steps", "left out", *SPREAD.values()], rows)
    yield table(["targets [rad]", "steps", *SPREAD.values()], between)
    largest = [
        signals.line(replay.label, signals.at(replay.time), np.abs(replay.error).max(axis=1), index)
        for index, replay in enumerate(evaluation.replays, start=1)
    ]
    yield signals.plot("Largest error of any joint", "rad", largest, height=190, scale="logarithmic")
    yield text("Targets of each joint", "h3")
    first = evaluation.replays[0]
    targets = [("sent", first.time, first.recorded), *((r.label, r.time, r.action) for r in evaluation.replays)]
    shown = [(label, signals.over_time(signals.at(time), values)) for label, time, values in targets]

    def lines(joint: int) -> list[Line]:
        return [Line(label, values[:, joint], colour, RADIAN) for colour, (label, values) in enumerate(shown)]

    yield from signals.of_joints(160, lines)


def _smoothness(evaluation: ReplayEvaluation) -> Iterator[str]:
    policies = evaluation.figures["policies"]
    measured = {"sent": policies[evaluation.replays[0].label]["recorded_smoothness"]}
    measured |= {label: figures["smoothness"] for label, figures in policies.items()}
    rows = [
        [label, number(figures["jerk_rms_rad_s3"], ",.0f"), number(figures["high_frequency_share"], ".1f", " %", 100.0)]
        for label, figures in measured.items()
    ]
    yield text("Smoothness of the targets", "h3")
    yield text("A walk moves at its two to three strides a second and their first multiples; more is noise or shaking.")
    yield table(["targets", "jerk, RMS [rad/s³]", f"above {HIGH_FREQUENCY:g} Hz"], rows)


def _recording(evaluation: ReplayEvaluation) -> Iterator[str]:
    notes = evaluation.run.notes
    policy = notes.model_fingerprint[:16] + "…" if notes.model_fingerprint else UNNOTED
    facts = [
        ("bag", evaluation.figures["bag"]),
        ("recorded policy", f"{notes.model} {policy}".strip()),
        ("revision of the suite", notes.git_revision or UNNOTED),
        ("modes", modes_text(evaluation.figures["modes_s"])),
    ]
    yield table([], facts)
