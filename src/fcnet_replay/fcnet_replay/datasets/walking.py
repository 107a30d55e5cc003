"""What of a recorded run can be learnt from: the steps that a policy took, checked."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fcnet_core.command import CommandShaper
from fcnet_core.learning.dataset import DatasetError
from fcnet_core.observation import assemble_observation
from fcnet_core.robot import Robot, load_robot
from fcnet_replay.bags.bag import Bag, open_bag
from fcnet_replay.read_run import read_run
from fcnet_replay.recording_notes import RecordingNotes, read_notes
from fcnet_replay.run import Run, StepRecord
from fcnet_replay.steps import extract_steps
from fcnet_replay.topic_map import OWN, load_topic_map

# The steps that a policy took in a recorded run: what it saw and what was sent, checked, with the cuts between.

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

GAP = 2.5  # periods between two states: longer, and what the policy would see is not one motion
OTHER_RATE = 0.2  # share by which the pace of steps may differ from the wanted one
LIMIT_SLACK = 1e-3  # [rad] beyond a limit; targets are sent as doubles and limits are exact
OTHER_ROBOT = 0.1  # share of targets beyond the limits from which on the robot is the wrong one
UNKNOWN_BEGINNING = "the bag does not hold the beginning of that walk, so the gait's phase is unknown"
UNKNOWN_PHASE = "targets are missing, so the gait's phase is unknown until the next walk"
UNIT = 0.05  # by which the length of an orientation may differ from 1


@dataclass(frozen=True)
class WalkingSteps:
    """K steps, in order. time (K,) [s]: stamp of the targets; state_time (K,) [s]: of the joint state seen; received
    (K,) [s]: when the bag's recorder had the targets; joints (K, 12) [rad, rad/s], orientation (K, 4) x, y, z, w,
    angular_velocity (K, 3) [rad/s], command (K, 16); last_action and target (K, 12) [rad]; begins (K,): steps that do
    not continue the one before; left_out: reason -> number of steps.

    basis: "recorded" by the controller, or "inferred" from its targets, see steps.py.
    """

    basis: Literal["recorded", "inferred"]
    time: Array
    state_time: Array
    received: Array
    joint_position: Array
    joint_velocity: Array
    orientation: Array
    angular_velocity: Array
    last_action: Array
    command: Array
    target: Array
    begins: Mask
    left_out: Counter[str]

    def __len__(self) -> int:
        return len(self.time)

    def observation(self, rows: slice = slice(None)) -> npt.NDArray[np.float32]:
        """What the policy saw (K, 70)."""
        return assemble_observation(
            self.orientation[rows],
            self.angular_velocity[rows],
            self.joint_position[rows],
            self.joint_velocity[rows],
            self.last_action[rows],
            self.command[rows],
        )


def walking_steps(run: Run, robot: Robot, rate: float, bag: str) -> WalkingSteps:
    """The steps of a policy of `rate` [Hz] in a run; bag: its name, for errors.

    Raises DatasetError when the run is of another robot or another rate.
    """
    left_out: Counter[str] = Counter()
    steps = extract_steps(run, CommandShaper(robot.commands, robot.gait, 1.0 / rate))
    left_out[UNKNOWN_BEGINNING] += int((~steps.begun).sum())
    left_out[UNKNOWN_PHASE] += int((steps.begun & ~steps.whole).sum())
    steps = steps.chosen(steps.phase_known)
    record = steps.record
    _check_rate(record, rate, bag)
    sound = steps.usable.copy()
    length = np.linalg.norm(run.imu.orientation[steps.imu[sound]], axis=1)
    sound[sound] = np.abs(length - 1.0) < UNIT
    within = sound.copy()
    within[sound] = _within_limits(run.targets.position[steps.target[sound]], robot, bag)
    left_out["what the policy saw or sent is not in the bag"] += int((~steps.known).sum())
    left_out["a value is not a number or cannot be"] += int((steps.known & ~sound).sum())
    left_out["a target lies beyond the joint limits"] += int((sound & ~within).sum())
    begins = _begins(record, rate) | np.append(True, ~within[:-1])[: len(within)] | (steps.missing > 0)
    kept = steps.chosen(within)
    return WalkingSteps(
        steps.basis,
        run.targets.stamp[kept.target],
        run.joints.stamp[kept.joints],
        run.targets.received[kept.target],
        run.joints.position[kept.joints],
        run.joints.velocity[kept.joints],
        run.imu.orientation[kept.imu],
        run.imu.angular_velocity[kept.imu],
        run.targets.position[kept.previous],
        kept.record.command,
        run.targets.position[kept.target],
        begins[within],
        left_out,
    )


def _check_rate(steps: StepRecord, rate: float, bag: str) -> None:
    if len(steps.target_stamp) < 3:
        return
    found = 1.0 / max(float(np.median(np.diff(steps.target_stamp))), 1e-6)
    if abs(found / rate - 1.0) > OTHER_RATE:
        raise DatasetError(f"the policy of {bag} took {found:.4g} steps a second, not {rate:g}; name that with --rate")


def _within_limits(target: Array, robot: Robot, bag: str) -> Mask:
    beyond = (target < robot.lower - LIMIT_SLACK) | (target > robot.upper + LIMIT_SLACK)
    within: Mask = np.logical_not(beyond.any(axis=1))
    if len(within) and (~within).mean() > OTHER_ROBOT:
        raise DatasetError(
            f"{(~within).mean():.0%} of the targets in {bag} lie beyond the joint limits of {robot.name}: "
            "it is a bag of another robot; name the right one with --robot"
        )
    return within


def _begins(steps: StepRecord, rate: float) -> Mask:
    """Steps after a cold start or a gap."""
    if not len(steps.cold):
        return steps.cold
    gap = np.abs(np.diff(steps.joints_stamp)) * rate > GAP
    backward = np.diff(steps.target_stamp) <= 0
    begins: Mask = steps.cold | np.append(True, gap | backward)
    return begins


# A bag opened to become data: whose it is, what it holds, and which of it can be learnt from.

BLOCK = 2**20  # [bytes]


@dataclass(frozen=True)
class BagReading:
    """How to read bags. robot and namespace: None for what the bag's recorder noted; topics: a topic map, for foreign
    bags; rate [Hz] of the policy; shortest [s] of an episode; before_fault [s]: what led to a fault is no example.
    """

    robot: str | None = None
    namespace: str | None = None
    topics: Path | None = None
    rate: float = 50.0
    shortest: float = 0.5
    before_fault: float = 1.0

    def __post_init__(self) -> None:
        if not 1.0 <= self.rate <= 10_000.0:
            raise DatasetError(f"--rate must be from 1 to 10000 Hz, not {self.rate:g}")
        for name in ("shortest", "before_fault"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise DatasetError(f"--{name.replace('_', '-')} must be 0 or more seconds, not {getattr(self, name):g}")


@dataclass(frozen=True)
class RecordedWalk:
    """A bag, what it says of a run, the steps in it, and the parts of them that are whole episodes."""

    path: Path
    fingerprint: str
    robot: Robot
    notes: RecordingNotes
    run: Run
    steps: WalkingSteps
    episodes: list[slice]

    @property
    def provenance(self) -> dict[str, Any]:
        """For a manifest: which bag this was, and from when to when it lasted [s since the epoch]."""
        received = [record.received for record in (self.run.joints, self.run.imu) if len(record.received)]
        return {
            "bag": self.path.name,
            "fingerprint": self.fingerprint,
            "begin": min(float(times.min()) for times in received),
            "end": max(float(times.max()) for times in received),
            "steps": sum(part.stop - part.start for part in self.episodes),
            "episodes": len(self.episodes),
            "alignment": self.steps.basis,
            "model_fingerprint": self.notes.model_fingerprint,
            "git_revision": self.notes.git_revision,
            "left_out": {reason: count for reason, count in self.steps.left_out.items() if count},
            "problems": list(self.run.problems),
        }

    def times(self, part: slice) -> dict[str, float | int]:
        """For a shard's job: when an episode began and ended, by the robot's clock [s]."""
        return {
            "steps": part.stop - part.start,
            "begin": float(self.steps.time[part.start]),
            "end": float(self.steps.time[part.stop - 1]),
        }


def read_walk(path: Path, reading: BagReading) -> RecordedWalk:
    """Read one bag. Raises ReplayError, SettingsError, RobotFileError or DatasetError with one sentence."""
    sources = load_topic_map(reading.topics) if reading.topics else OWN
    bag = open_bag(path)
    notes = read_notes(bag.custom)
    robot = _robot(path, notes, reading)
    run = read_run(bag, notes.namespace if reading.namespace is None else reading.namespace, sources)
    steps = walking_steps(run, robot, reading.rate, str(path))
    return RecordedWalk(path, _fingerprint(bag), robot, notes, run, steps, _episodes(run, steps, reading))


def _robot(path: Path, notes: RecordingNotes, reading: BagReading) -> Robot:
    if not (reading.robot or notes.robot):
        raise DatasetError(
            f"the bag {path} does not say which robot it is of; add --robot, for example --robot aliengo"
        )
    robot = load_robot(reading.robot or notes.robot)
    if notes.robot and notes.robot != robot.name:
        raise DatasetError(f"the bag {path} is of the robot {notes.robot}, not {robot.name}; leave out --robot")
    return robot


def _episodes(run: Run, steps: WalkingSteps, reading: BagReading) -> list[slice]:
    """Unbroken parts of the steps, without those that led to a fault; what is too short is counted as left out."""
    keep = np.ones(len(steps), dtype=bool)
    for mode, time in zip(run.mode.modes, run.mode.received, strict=True):
        if mode == "fault":
            keep &= (steps.received < time - reading.before_fault) | (steps.received > time)
    steps.left_out[f"a fault followed within {reading.before_fault:g} s"] += int((~keep).sum())
    parts = _parts(steps.begins, keep)
    whole = [part for part in parts if part.stop - part.start >= reading.shortest * reading.rate]
    lost = int(keep.sum()) - sum(part.stop - part.start for part in whole)
    steps.left_out[f"their episode is shorter than {reading.shortest:g} s"] += lost
    return whole


def _parts(begins: npt.NDArray[np.bool_], keep: npt.NDArray[np.bool_]) -> list[slice]:
    starts = np.flatnonzero(keep & (begins | np.append(True, ~keep[:-1])[: len(keep)]))
    ends = np.flatnonzero(keep & np.append(begins[1:] | ~keep[1:], True)[: len(keep)])
    return [slice(int(start), int(end) + 1) for start, end in zip(starts, ends, strict=True)]


def _fingerprint(bag: Bag) -> str:
    """SHA-256 (hex) over the contents of the bag's files: the same recording, wherever it was copied to."""
    digest = hashlib.sha256()
    for file in bag.files:
        with file.open("rb") as content:
            while block := content.read(BLOCK):
                digest.update(block)
    return digest.hexdigest()
