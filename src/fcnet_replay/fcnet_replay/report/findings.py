"""The verdict on a replay in words, for reports, and its summary for a terminal."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from textwrap import indent
from typing import Any, Literal, NamedTuple

import numpy as np

from fcnet_core.names import Mode
from fcnet_core.verbs import text_table
from fcnet_replay.evaluation import ReplayEvaluation
from fcnet_replay.metrics import AGREEMENT, UNKNOWN

LEVELS = {"bad": "problem", "note": "note", "good": "ok"}  # of a finding, most severe first, and the shown word
MUCH_TIME = 0.05  # share of time at a limit that is reported
ROUGH = 0.2  # share of high frequencies above which targets shake the legs
LATE_START = 0.5  # [s] from the start of a robot to the first message of a topic
SEVERE = ("damaged", "unknown", "no_metadata", "clock", "clock_unknown", "mixed")  # kinds of problems of a recording
MOST_PROBLEMS = 8  # in the verdict
POLICY_HEADS = "policy", "steps", "error RMS", "99 %", "largest [rad]", "jerk RMS [rad/s³]", "above 8 Hz", "file"
TOPIC_HEADS = "topic", "messages", "rate [Hz]", "gaps", "late", "out of order"
COUNTS = ("gaps", "late", "out_of_order")


class ReportFinding(NamedTuple):
    """A sentence of the verdict, its severity, and a code that programs compare."""

    level: Literal["good", "note", "bad"]
    sentence: str
    code: str = ""


good, note, bad = (partial(ReportFinding, level) for level in ("good", "note", "bad"))


def findings(evaluation: ReplayEvaluation) -> list[ReportFinding]:
    """Return the verdict, most severe findings first."""
    found = [*_bag(evaluation), *_policies(evaluation), *_robot(evaluation), *_timing(evaluation)]
    return sorted(dict.fromkeys(found), key=lambda finding: list(LEVELS).index(finding.level))


def _bag(evaluation: ReplayEvaluation) -> Iterator[ReportFinding]:
    problems = evaluation.run.problems
    for problem in problems[:MOST_PROBLEMS]:
        yield (bad if problem.kind in SEVERE else note)(f"{problem.sentence}.", problem.kind)
    if more := len(problems[MOST_PROBLEMS:]):
        yield bad(f"{more} more problems of the bag are in its JSON report.", "more_problems")


def _policies(evaluation: ReplayEvaluation) -> Iterator[ReportFinding]:
    if not evaluation.replays:
        yield note(f"No policy was replayed: none is known for {evaluation.robot.name}; name one.", "no_policy")
    for replay in evaluation.replays:
        label, figures = replay.label, evaluation.figures["policies"][replay.label]
        yield _error(label, figures)
        if figures["is_the_recorded_one"] is False:
            yield note(f"Policy {label} is not the one that the bag was recorded with.", "other_policy")
        # Reasons for differences that are not the policy's.
        if replay.basis == "inferred":
            why = "The bag does not hold the policy's steps: they were inferred by counting targets."
            yield note(f"{why} A part of the differences is due to that.", "inferred")
        if count := replay.unknown_phase:
            where = "the bag lacks the beginning of their walk, or targets in it. Differences may say little there."
            yield note(f"The gait's phase may be wrong in {count} of the steps: {where}", "unknown_phase")
        if replay.lost:
            why = "messages that they saw are missing or unusable"
            yield note(f"{replay.lost} steps cannot be replayed by policy {label}: {why}.", "lost_steps")
        if replay.missing:
            yield bad(f"The bag lacks {replay.missing} steps between the first and the last.", "missing_steps")
        if replay.basis != "alone" and (count := int((~replay.comparable).sum())):
            where = "after missing messages, and where a bag begins in the middle of a walk, the memory is unknown"
            yield note(f"{count} steps are not compared: {where}. The replay starts cold there.", "uncompared_steps")
        share, limit = (figures["smoothness"][name] for name in ("high_frequency_share", "high_frequency_hz"))
        if share is not None and share > ROUGH:
            motion = f"{share:.0%} of the motion that policy {label} asks for"
            yield note(f"{motion} is above {limit:g} Hz: the targets are rough.", "rough")


def _error(label: str, figures: dict[str, Any]) -> ReportFinding:
    error, steps = figures["action_error_rad"], figures["action_error_rad"]["steps"]
    if not steps and not error["uncompared_steps"]:
        return bad(f"Not one step of policy {label} can be replayed.", "nothing_compared")
    if figures["basis"] == "alone":
        consequence = f"there is nothing to compare policy {label} with, it was replayed by itself"
        return note(f"The bag holds no targets at the policy's rate: {consequence}.", "alone")
    if not steps:
        return bad(f"Not one step of policy {label} can be compared with what was sent.", "nothing_compared")
    if error["agrees"]:
        targets = f"{steps} {'comparable' if error['uncompared_steps'] else 'recorded'} targets"
        largest = f"the largest difference is {error['max']:.1e} rad"
        return good(f"Policy {label} reproduces every one of the {targets}: {largest}.", "reproduced")
    sentence = (
        f"Policy {label} differs from the recorded targets by {error['rmse']:.3g} rad (root mean square), at most "
        f"{error['max']:.3g} rad, over {steps} steps"
    )
    if figures["is_the_recorded_one"] and figures["basis"] == "recorded":
        return bad(f"{sentence}, although it is the recorded one (limit {AGREEMENT:g} rad).", "not_reproduced")
    return note(f"{sentence}.", "differs")


def _robot(evaluation: ReplayEvaluation) -> Iterator[ReportFinding]:
    motion, limit = evaluation.figures["motion"], evaluation.robot.safety.max_tilt
    largest, share = motion["tilt_rad"]["max"], motion["share_of_time_at_torque_limit"]
    if largest is None:
        yield bad("How far the trunk tilted is not known: the bag has no orientation of it.", "tilt_unknown")
    else:
        unknown = motion["tilt_rad"].get(UNKNOWN, 0.0)
        where = f", where it is known: {unknown:.1%} of the orientations are unknown" if unknown else ""
        tilt = f"The trunk tilted by at most {np.degrees(largest):.0f}°, the limit is {np.degrees(limit):.0f}°{where}."
        yield (bad if unknown or largest > limit else good)(tilt, "tilt")
    if (in_fault := evaluation.figures["modes_s"].get(Mode.FAULT.value)) is not None:
        yield bad(f"The controller was in fault for {in_fault:.1f} s.", "fault")
    if share is not None and share > MUCH_TIME:
        yield note(f"A joint was at its torque limit {share:.0%} of the time.", "torque_limit")
    if evaluation.figures["tracking"] is None:
        yield note("How well commands were followed is not known: the bag has no odom with velocities.", "no_odom")


def _timing(evaluation: ReplayEvaluation) -> Iterator[ReportFinding]:
    mixed = [problem.sentence.split()[0] for problem in evaluation.run.problems if problem.kind == "mixed"]
    timing, periods = evaluation.figures["timing"], [replay.period for replay in evaluation.replays]
    for topic, delay in timing["start_delay_s"].items():
        if delay is not None and delay > LATE_START:
            why = "other messages show that the robot was already running. The recorder subscribed late."
            yield note(f"The bag lacks the first {delay:.1f} s of {topic}: {why}", "late_start")
    for topic, figures in timing["topics"].items():
        if count := figures.get("gaps"):
            longest = f"the longest {1e3 * figures['largest_gap_s']:.0f} ms"
            yield note(f"{topic} has {count} interval(s) of more than three times the usual one, {longest}.", "gaps")
        if topic not in mixed and (count := figures.get("out_of_order")):
            yield bad(f"The stamps of {topic} step back in {count} places: messages out of order.", "out_of_order")
    latency = timing["state_to_target_s"]["p99"]
    if latency is not None:
        sentence = f"99 % of the targets left within {1e3 * latency:.1f} ms of their state."
        yield (note if latency > min(periods, default=np.inf) else good)(sentence, "latency")


def summary(evaluation: ReplayEvaluation) -> str:
    """Return the verdict and the main figures for a terminal."""
    figures = evaluation.figures
    head = f"{figures['bag']}: {figures['duration_s']:.1f} s of {figures['robot']}"
    lines = [f"{head}; modes: {modes_text(figures['modes_s'])}"]
    lines += [f"  {LEVELS[finding.level]:<8}{finding.sentence}" for finding in findings(evaluation)]
    policies = []
    for replay in evaluation.replays:
        error, smooth = (figures["policies"][replay.label][part] for part in ("action_error_rad", "smoothness"))
        sizes = numbers(error, ("rmse", "p99", "max"), ".2g")
        shaking = [number(smooth["jerk_rms_rad_s3"]), number(smooth["high_frequency_share"], ".1%")]
        policies.append([replay.label, str(len(replay.time)), *sizes, *shaking, replay.name])
    topics = [
        [topic, str(part["messages"]), number(part.get("rate_hz"), ".1f"), *numbers(part, COUNTS, ".0f")]
        for topic, part in figures["timing"]["topics"].items()
    ]
    tables = [text_table(POLICY_HEADS, policies)] if policies else []
    return "\n".join([*lines, *(indent(table, "  ") for table in [*tables, text_table(TOPIC_HEADS, topics)])])


def modes_text(seconds: dict[str, float]) -> str:
    """Return how long each mode lasted."""
    return ", ".join(f"{mode} {lasted:.1f} s" for mode, lasted in seconds.items()) or "not recorded"


def numbers(
    figures: Mapping[str, float | None], names: Iterable[str], form: str = ".3g", scale: float = 1.0
) -> list[str]:
    """Return the figures of these names as cells of a table."""
    return [number(figures.get(name), form, scale=scale) for name in names]


def number(value: float | None, form: str = ".3g", unit: str = "", scale: float = 1.0) -> str:
    """Return a figure with its unit, or a dash if it is unknown."""
    return "–" if value is None or value != value else f"{value * scale:{form}}{unit}"
