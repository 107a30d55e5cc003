"""Judges a bag: everything that `fcnet replay` reports, as numbers and names fit for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fcnet_core.replay.action_error import action_error
from fcnet_core.replay.body_motion import body_motion
from fcnet_core.replay.command_tracking import Velocities, command_tracking, velocities
from fcnet_core.replay.mode_times import mode_times
from fcnet_core.replay.policy_difference import policy_difference
from fcnet_core.replay.policy_replay import PolicyReplay
from fcnet_core.replay.recorded_run import RecordedRun
from fcnet_core.replay.recording_notes import RecordingNotes
from fcnet_core.replay.smoothness import smoothness
from fcnet_core.replay.timing import timing
from fcnet_core.robot import Robot

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
