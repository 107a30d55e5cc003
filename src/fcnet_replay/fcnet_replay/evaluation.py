"""Evaluates a bag and the policies replayed over it, as figures fit for JSON."""

import math
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core.errors import ReplayError
from fcnet_core.model_file import check_robot, load_model, shipped_model
from fcnet_core.names import Mode
from fcnet_core.robot import Robot
from fcnet_replay import metrics
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.policy_replay import PolicyReplay, replay_policy
from fcnet_replay.read_run import read_run
from fcnet_replay.recording_notes import robot_of
from fcnet_replay.run import Run
from fcnet_replay.topic_map import OWN, load_topic_map


@dataclass(frozen=True)
class ReplayEvaluation:
    """replays: one of each policy; figures: see docs/replay.md."""

    run: Run
    robot: Robot
    replays: tuple[PolicyReplay, ...]
    figures: dict[str, Any]


def evaluate_bag(
    path: Path,
    policies: Sequence[Path] = (),
    robot_name: str | None = None,
    namespace: str | None = None,
    topics: Path | None = None,
) -> ReplayEvaluation:
    """Read a bag, replay the policies (default: the recorded one, else the robot's shipped one) and evaluate both.

    Raises FcnetError if bag, policy, robot or topic map is unusable.
    """
    if len(policies) > len(string.ascii_uppercase):
        raise ReplayError(f"{len(policies)} policies are too many for one report; compare at most 26")
    topic_map = load_topic_map(topics) if topics else OWN
    bag = open_bag(path)
    models = [(str(file), load_model(file)) for file in policies]
    robot = robot_of(path, bag.notes, robot_name, otherwise=models[0][1].card.interface.name if models else "")
    if not models and (recorded := bag.notes.recorded_model()):
        models = [(bag.notes.model, recorded)]
    elif not models and (shipped := shipped_model(robot.name)).is_file():
        models = [(f"models/{shipped.name}", load_model(shipped))]
    for _, model in models:
        check_robot(model, robot)
    run = read_run(bag, namespace, topic_map, robot.joint_names)
    labelled = zip(string.ascii_uppercase, models, strict=False)
    replays = tuple(replay_policy(run, model, robot, label, name) for label, (name, model) in labelled)
    return ReplayEvaluation(run, robot, replays, _figures(path, run, robot, replays))


def _figures(path: Path, run: Run, robot: Robot, replays: Sequence[PolicyReplay]) -> dict[str, Any]:
    notes = run.notes
    return {
        "format": 1,
        "bag": str(path),
        "robot": robot.name,
        "duration_s": float(np.ptp(run.by_robots_clock(np.concatenate([run.joints.received, run.imu.received])))),
        "recorded_with": {
            "model": notes.model or None,
            "model_fingerprint": notes.model_fingerprint or None,
            "git_revision": notes.git_revision or None,
            "parameters": notes.parameters,
        },
        "problems": [problem.sentence for problem in run.problems],
        "modes_s": metrics.mode_times(run),
        "timing": metrics.timing(run),
        "motion": metrics.body_motion(run, robot),
        "tracking": metrics.command_tracking(*metrics.velocities(run)[1:]),
        "policies": {replay.label: _policy(replay, notes.model_fingerprint) for replay in replays},
        "differences": {f"{one.label}-A": metrics.policy_difference(replays[0], one) for one in replays[1:]},
    }


def _policy(replay: PolicyReplay, recorded: str) -> dict[str, Any]:
    fingerprint = replay.model.fingerprint
    return {
        "model": replay.name,
        "fingerprint": fingerprint,
        "is_the_recorded_one": fingerprint == recorded if recorded else None,
        "basis": replay.basis,
        "steps_of_unknown_phase": replay.unknown_phase,
        "cold_starts": int(replay.cold.sum()),
        "action_error_rad": metrics.action_error(replay),
        "smoothness": metrics.smoothness(replay.action, replay.cold, replay.period),
        "recorded_smoothness": metrics.smoothness(replay.recorded, replay.cold, replay.period),
    }


def parse_threshold(text: str) -> tuple[str, float]:
    """Return metric and limit of METRIC=VALUE; a metric is the path of a figure, such as motion.tilt_rad.max.

    Raises ReplayError for other texts.
    """
    metric, _, value = text.partition("=")
    with suppress(ValueError):
        if metric and not math.isnan(limit := float(value)):
            return metric, limit
    raise ReplayError(f"a threshold is METRIC=VALUE, such as motion.tilt_rad.max=0.5, not {text!r}")


def broken_thresholds(figures: Mapping[str, Any], thresholds: Sequence[tuple[str, float]]) -> list[str]:
    """Return a sentence for each exceeded threshold. A figure that is unknown, also in part, fails its threshold.

    Metrics of policy A may omit `policies.A.`. Raises ReplayError for an unknown metric.
    """
    in_modes = {f"modes_s.{mode.value}": 0.0 if figures["modes_s"] else None for mode in Mode}
    known = in_modes | dict(_metrics(figures))
    short = {name.removeprefix("policies.A."): value for name, value in known.items()}
    known |= short
    broken = []
    for metric, limit in thresholds:
        if any(metric.startswith(f"{group}.") and figure is None for group, figure in known.items()):
            known[metric] = None  # such as tracking, without odom
        if metric not in known:
            raise ReplayError(f"there is no metric {metric}; --json has all, such as {', '.join(list(short)[:12])}")
        value = known[metric]
        if value is None:
            broken.append(f"{metric} is not known, and at most {limit:g} is allowed")
        elif not value <= limit:
            broken.append(f"{metric} is {value:.6g}, above {limit:g}")
        elif unknown := known.get(f"{metric.rpartition('.')[0]}.{metrics.UNKNOWN}"):
            what = f"{value:.6g} where it is known, but {unknown:.1%} of its values are unknown"
            broken.append(f"{metric} is {what}, and at most {limit:g} is allowed")
    return broken


def _metrics(figures: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield path and value of each figure that can have a threshold."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _metrics(value, f"{path}{name}.")
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            yield f"{path}{name}", value
