"""A bag opened to become data: whose it is, what it holds, and which of it can be learnt from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.bags.bag import Bag, open_bag
from fcnet_core.dataset import DatasetError
from fcnet_core.datasets.walking_steps import WalkingSteps, walking_steps
from fcnet_core.replay.read_run import read_run
from fcnet_core.replay.recorded_run import RecordedRun
from fcnet_core.replay.recording_notes import RecordingNotes, read_notes
from fcnet_core.replay.topic_map import OWN, load_topic_map
from fcnet_core.robot import Robot, load_robot

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
    run: RecordedRun
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
    """Read one bag. Raises BagError, TopicMapError, RobotFileError or DatasetError with one sentence."""
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


def _episodes(run: RecordedRun, steps: WalkingSteps, reading: BagReading) -> list[slice]:
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
