"""From a bag's path to everything that `fcnet replay` reports, as numbers and names fit for JSON."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fcnet_core
from fcnet_core.model_file import ModelFileError, PolicyModel, check_robot, load_model
from fcnet_core.robot import Robot, load_robot
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.errors import ReplayError
from fcnet_replay.metrics import (
    Velocities,
    action_error,
    body_motion,
    command_tracking,
    mode_times,
    policy_difference,
    smoothness,
    timing,
    velocities,
)
from fcnet_replay.policy_replay import PolicyReplay, replay_policy
from fcnet_replay.read_run import read_run
from fcnet_replay.recording_notes import RecordingNotes, read_notes
from fcnet_replay.run import RecordedRun
from fcnet_replay.topic_map import OWN, load_topic_map

# Judges a bag: everything that `fcnet replay` reports, as numbers and names fit for JSON.

FORMAT = 1


@dataclass(frozen=True)
class Evaluation:
    """bag: its path, as given; replays: one of each policy, the first of which the run is judged by; figures: see
    docs/replay.md.
    """

    bag: str
    run: RecordedRun
    robot: Robot
    notes: RecordingNotes
    replays: tuple[PolicyReplay, ...]
    velocity: Velocities
    figures: dict[str, Any]


def evaluate(
    bag: str, run: RecordedRun, robot: Robot, notes: RecordingNotes, replays: Sequence[PolicyReplay]
) -> Evaluation:
    """Judge a run and what policies make of it."""
    velocity = velocities(run)
    figures = {
        "format": FORMAT,
        "bag": bag,
        "robot": robot.name,
        "duration_s": _duration(run),
        "recorded_with": {
            "model": notes.model or None,
            "model_fingerprint": notes.model_fingerprint or None,
            "git_revision": notes.git_revision or None,
            "parameters": notes.parameters,
        },
        "problems": list(run.problems),
        "modes_s": mode_times(run),
        "timing": timing(run),
        "motion": body_motion(run, robot),
        "tracking": command_tracking(velocity),
        "policies": {replay.label: _policy(replay, notes) for replay in replays},
        "differences": {
            f"{replay.label}-{replays[0].label}": policy_difference(replays[0].loop, replay.loop)
            for replay in replays[1:]
        },
    }
    return Evaluation(bag, run, robot, notes, tuple(replays), velocity, figures)


def _policy(replay: PolicyReplay, notes: RecordingNotes) -> dict[str, Any]:
    fingerprint = replay.model.fingerprint
    known = notes.model_fingerprint
    return {
        "model": replay.name,
        "fingerprint": fingerprint,
        "is_the_recorded_one": fingerprint == known if known else None,
        "basis": replay.basis,
        "steps_of_unknown_phase": replay.unknown_phase,
        "cold_starts": int(replay.loop.cold.sum()),
        "action_error_rad": action_error(replay.loop),
        "smoothness": smoothness(replay.loop.action, replay.loop.cold, replay.period),
        "recorded_smoothness": smoothness(replay.loop.recorded, replay.loop.cold, replay.period),
    }


def _duration(run: RecordedRun) -> float:
    received = np.concatenate([run.joints.received, run.imu.received])
    return float(np.ptp(received))


# From a bag's path to its evaluation: which robot and which policies, where the user does not say.

SHIPPED = Path(fcnet_core.__file__).parent / "models"


def judge_bag(
    path: Path,
    policies: Sequence[Path] = (),
    robot_name: str | None = None,
    namespace: str | None = None,
    topics: Path | None = None,
) -> Evaluation:
    """Read the bag, replay the policies (default: the recorded one, else the robot's shipped one), and judge both.

    Raises BagError, ModelFileError, RobotFileError, TopicMapError or ReplayError with one sentence.
    """
    if len(policies) > len(string.ascii_uppercase):
        raise ReplayError(f"{len(policies)} policies are too many for one report; compare at most 26")
    sources = load_topic_map(topics) if topics else OWN
    bag = open_bag(path)
    notes = read_notes(bag.custom)
    models = [(str(file), load_model(file)) for file in policies]
    robot = load_robot(robot_name or notes.robot or _robot_of(models, path))
    models = models or _default_policy(notes, robot.name)
    for _, model in models:
        check_robot(model, robot)
    run = read_run(bag, notes.namespace if namespace is None else namespace, sources)
    replays = [
        replay_policy(run, label, name, model, robot, notes.control_rate)
        for label, (name, model) in zip(string.ascii_uppercase, models, strict=False)
    ]
    return evaluate(str(path), run, robot, notes, replays)


def _robot_of(models: Sequence[tuple[str, PolicyModel]], path: Path) -> str:
    if not models:
        raise ReplayError(f"the bag {path} does not say which robot it is of; add --robot, for example --robot aliengo")
    return models[0][1].card.robot


def _default_policy(notes: RecordingNotes, robot: str) -> list[tuple[str, PolicyModel]]:
    """The recorded policy where its file still is the one; else the one that the suite ships for this robot, if any."""
    shipped = SHIPPED / f"{robot}.safetensors"
    for file in (Path(notes.model), shipped) if notes.model else (shipped,):
        try:
            model = load_model(file)
        except ModelFileError:
            continue
        if file == shipped or not notes.model_fingerprint or model.fingerprint == notes.model_fingerprint:
            return [(str(file if file != shipped else f"models/{file.name}"), model)]
    return []


# Limits for figures, for use in continuous integration.

SECTIONS = ("modes_s", "timing", "motion", "tracking", "policies", "differences")
SHOWN = 12  # metrics told in an error


class ThresholdError(ValueError):
    """A threshold cannot be understood; the sentence says what is expected."""


@dataclass(frozen=True)
class Threshold:
    """metric: the path of a figure, with dots between its names, such as motion.tilt_rad.max; limit: the largest
    value that is accepted.
    """

    metric: str
    limit: float


def parse_threshold(text: str) -> Threshold:
    """A threshold from METRIC=VALUE. Raises ThresholdError."""
    metric, equals, value = text.partition("=")
    try:
        limit = float(value)
    except ValueError:
        limit = math.nan
    if not metric or not equals or math.isnan(limit):
        raise ThresholdError(f"a threshold is METRIC=VALUE, such as motion.tilt_rad.max=0.5, not {text!r}")
    return Threshold(metric, limit)


def broken_thresholds(figures: dict[str, Any], thresholds: Sequence[Threshold]) -> list[str]:
    """A sentence for each threshold that is broken. A figure that is not known breaks its threshold.

    A metric of a policy may leave out `policies.A.`. Raises ThresholdError for a metric that does not exist.
    """
    known = dict(_metrics({section: figures[section] for section in SECTIONS}))
    first = {name.removeprefix("policies.A."): value for name, value in known.items()}
    broken = []
    for threshold in thresholds:
        if threshold.metric not in {**first, **known}:
            raise ThresholdError(_unknown(threshold.metric, list(first)))
        value = {**first, **known}[threshold.metric]
        if value is None:
            broken.append(f"{threshold.metric} is not known, and at most {threshold.limit:g} is allowed")
        elif not value <= threshold.limit:
            broken.append(f"{threshold.metric} is {value:.6g}, above {threshold.limit:g}")
    return broken


def _metrics(figures: dict[str, Any], path: str = "") -> Iterator[tuple[str, float | None]]:
    """Every figure that a threshold can be set for, by its path."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _metrics(value, f"{path}{name}.")
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            yield f"{path}{name}", value


def _unknown(metric: str, known: list[str]) -> str:
    words = metric.lower().replace(".", "_").split("_")
    nearest = sorted(known, key=lambda name: -sum(word in name.lower() for word in words))[:SHOWN]
    return f"there is no metric {metric}; some that there are: {', '.join(nearest)}; --json has all"
