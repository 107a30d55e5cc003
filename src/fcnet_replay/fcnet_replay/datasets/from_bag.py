"""Makes datasets from bags: walking sections become episodes of observations and sent targets."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core import counted
from fcnet_core.arrays import Array, Mask
from fcnet_core.control.command import CommandShaper
from fcnet_core.errors import FcnetError
from fcnet_core.files import new_folder
from fcnet_core.learning.dataset import DatasetWriter, velocity_manifest
from fcnet_core.names import Mode
from fcnet_core.observation import velocity_interface
from fcnet_core.robot import Robot
from fcnet_core.rotation import tilt
from fcnet_replay.bags.bag import Bag, open_bag
from fcnet_replay.policy_replay import Steps, extract_steps
from fcnet_replay.read_run import read_run
from fcnet_replay.recording_notes import robot_of
from fcnet_replay.run import Run
from fcnet_replay.topic_map import OWN, load_topic_map

GAP = 2.5  # periods between two states; a longer gap ends an episode
OTHER_RATE = 0.2  # share by which the rate of steps may differ from the requested rate
LIMIT_SLACK = 1e-3  # [rad] beyond a limit; targets are sent as doubles and limits are exact
OTHER_ROBOT = 0.1  # share of targets beyond the limits above which the bag is of another robot
SHORTEST = 0.5  # [s] of an episode


@dataclass(frozen=True)
class BagReading:
    """How to read bags. robot and namespace: default: as noted by the recorder; topics: topic map of foreign bags; rate
    [Hz] of the policy; before_fault [s]: time before a fault that is left out.
    """

    robot: str | None = None
    namespace: str | None = None
    topics: Path | None = None
    rate: float = 50.0
    before_fault: float = 1.0


@dataclass(frozen=True)
class BagEpisodes:
    """The usable part of a bag. steps: K sound steps, of episodes that are continuous, long enough and not followed by
    a fault; first (K,): starts of episodes; left_out: number of steps by reason.
    """

    path: Path
    fingerprint: str
    robot: Robot
    run: Run
    steps: Steps
    first: Mask
    left_out: Counter[str]

    @property
    def target(self) -> Array:
        """Sent targets (K, J) [rad]."""
        return self.run.targets.position[self.steps.target]


@dataclass(frozen=True)
class Labels:
    """Labels of K steps. target (K, J) [rad]; known (K,): steps with a target; first (K,): starts of episodes; facts:
    for the manifest; left_out: number of steps by reason; sentence: printed.
    """

    target: Array
    known: Mask
    first: Mask
    facts: dict[str, Any] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    sentence: str = ""


def dataset_from_bags(
    bags: Sequence[Path],
    folder: Path,
    reading: BagReading,
    label: Callable[[BagEpisodes], Labels] | None = None,
    source: tuple[str, str] = ("bags", "the targets that were sent"),
) -> DatasetWriter:
    """Write the new dataset `folder` with one sequence for each bag, and print what is used. One bag is in memory.

    label: default: the sent targets; source: of the data, and of their labels. Raises FcnetError if the bags do not
    belong together, are unusable, named twice, or hold no walking.
    """
    with new_folder(folder) as partial:
        data, robot, described = None, "", list[dict[str, Any]]()
        for found in (read_episodes(path, reading) for path in bags):
            robot = robot or found.robot.name
            if found.robot.name != robot:
                other = f"{found.path} is of the robot {found.robot.name} and {bags[0]} of {robot}"
                raise FcnetError(f"{other}; make one dataset of each robot")
            if any(found.fingerprint == facts["fingerprint"] for facts in described):
                raise FcnetError(f"{found.path} holds the same recording as a bag named before it; name it once")
            data = data or DatasetWriter(partial, velocity_manifest(found.robot, reading.rate))
            everything = np.ones(len(found.steps), dtype=np.bool_)
            labels = label(found) if label else Labels(found.target, everything, found.first)
            found.left_out.update(labels.left_out)
            described.append(_provenance(found) | labels.facts)
            for line in filter(None, (*_account(found), labels.sentence)):
                print(line)
            if labels.known.any():
                _add(data, found, labels)
        if data is None or not data.steps:
            raise FcnetError(f"{', '.join(map(str, bags))} hold no walking to learn from; {folder} was not written")
        data.describe({"source": source[0], "labels": source[1], "bags": described})
    return data


def _provenance(found: BagEpisodes) -> dict[str, Any]:
    """Return the bag's entry in the manifest: name, fingerprint, times [s since the epoch], and what was left out."""
    run, received = found.run, np.concatenate([found.run.joints.received, found.run.imu.received])
    return {
        "bag": found.path.name,
        "fingerprint": found.fingerprint,
        "begin": float(received.min()),
        "end": float(received.max()),
        "steps": len(found.steps),
        "episodes": int(found.first.sum()),
        "alignment": found.steps.basis,
        "model_fingerprint": run.notes.model_fingerprint,
        "git_revision": run.notes.git_revision,
        "left_out": {reason: count for reason, count in found.left_out.items() if count},
        "problems": [problem.sentence for problem in run.problems],
    }


def _add(data: DatasetWriter, found: BagEpisodes, labels: Labels) -> None:
    rows = np.flatnonzero(labels.known)
    steps, first = found.steps.chosen(rows), (labels.first | np.append(True, ~labels.known[:-1]))[rows]
    time, bounds = steps.record.target_stamp.tolist(), [*np.flatnonzero(first).tolist(), len(rows)]
    episodes = [{"steps": end - begin, "begin": time[begin], "end": time[end - 1]} for begin, end in pairwise(bounds)]
    data.add(
        {"bag": found.path.name, "episodes": episodes},
        observation=steps.observations(found.run, velocity_interface(found.robot))[None],
        action=labels.target[rows][None],
        first=first[None],
    )


def read_episodes(path: Path, reading: BagReading) -> BagEpisodes:
    """Return the usable part of one bag. Raises FcnetError if it is unusable or of another robot or rate."""
    sources = load_topic_map(reading.topics) if reading.topics else OWN
    bag = open_bag(path)
    robot = robot_of(path, bag.notes, reading.robot)
    run = read_run(bag, reading.namespace, sources, robot.joint_names)
    left_out: Counter[str] = Counter()
    steps, begins = _sound_steps(run, robot, reading.rate, path, left_out)
    kept, first = _episodes(run, steps, begins, reading, left_out)
    return BagEpisodes(path, _fingerprint(bag), robot, run, steps.chosen(kept), first[kept], left_out)


def _account(found: BagEpisodes) -> Iterator[str]:
    """Yield lines on the steps of a bag, those left out with their reasons, and its problems."""
    inferred = found.steps.basis == "inferred"
    how = ", inferred from targets, commands and modes: the gait's phase is good to some 40 ms" if inferred else ""
    episodes = counted(int(found.first.sum()), "episode")
    yield f"{found.path}: {counted(len(found.steps), 'step')} in {episodes} of {found.robot.name}{how}"
    if not len(found.steps):
        yield f"  no walking kept{'' if found.run.mode.modes else ', and the bag has no controller/mode to find it by'}"
    elif inferred and not found.run.setpoints.value[:, :6].any():
        yield "  the bag has no commands, which are taken as zero: if one was sent, these data are wrong"
    for reason, count in found.left_out.items():
        if count:
            yield f"  {counted(count, 'step')} left out: {reason}"
    for problem in found.run.problems:
        yield f"  {problem.sentence}"


def _sound_steps(run: Run, robot: Robot, rate: float, path: Path, left_out: Counter[str]) -> tuple[Steps, Mask]:
    """Return the sound steps (K,) of a policy of `rate` [Hz], and which of them do not continue the step before.

    Raises FcnetError if the run is of another robot or another rate.
    """
    if mixed := [problem.sentence for problem in run.problems if problem.kind == "mixed"]:
        raise FcnetError(f"{path}: {mixed[0]}")
    steps = extract_steps(run, CommandShaper(robot.commands, robot.gait, 1.0 / rate))
    unknown_clock = [problem.sentence for problem in run.problems if problem.kind == "clock_unknown"]
    if unknown_clock and steps.basis == "inferred":
        why = "which state a step saw is unknown; record controller/policy_step, or all topics on one computer"
        raise FcnetError(f"{path} has stamps by several clocks: {unknown_clock[0]}. Without recorded steps {why}")
    unknown = "the bag lacks the beginning of that walk, or targets in it, so the gait's phase is unknown"
    left_out[unknown] += int((~steps.phase_known).sum())
    steps = steps.chosen(steps.phase_known)
    period = float(np.median(np.diff(steps.record.target_stamp))) if len(steps) > 2 else 1.0 / rate
    found = 1.0 / max(period, 1e-6)
    if abs(found / rate - 1.0) > OTHER_RATE:
        raise FcnetError(f"the policy of {path} took {found:.4g} steps a second, not {rate:g}; name that with --rate")
    sound, within = steps.usable, steps.usable.copy()
    target = run.targets.position[steps.target[sound]]
    within[sound] = ((target >= robot.lower - LIMIT_SLACK) & (target <= robot.upper + LIMIT_SLACK)).all(axis=1)
    beyond = int((sound & ~within).sum())
    if beyond > OTHER_ROBOT * sound.sum():
        where = f"{path} lie beyond the joint limits of {robot.name}: it is a bag of another robot"
        raise FcnetError(f"{beyond / sound.sum():.0%} of the targets in {where}; name the right one with --robot")
    measured, seen = run.joints.position[steps.joints[sound]], tilt(run.imu.orientation[steps.imu[sound]])
    margin, most = robot.safety.position_margin, robot.safety.max_tilt
    away = int(((measured < robot.lower - margin) | (measured > robot.upper + margin)).any(axis=1).sum())
    if away > OTHER_ROBOT * sound.sum():
        where = f"{away / sound.sum():.0%} of the joint positions in {path} lie beyond the joint limits of {robot.name}"
        raise FcnetError(f"{where}: give a bag of this robot, with joint_states in radians")
    left_out[f"the trunk is tilted by more than {most:g} rad, the limit of the controller"] += int((seen > most).sum())
    within[sound] &= seen <= most
    left_out["a message that the policy saw or sent is missing or has impossible values"] += int((~sound).sum())
    left_out["a target lies beyond the joint limits"] += beyond
    record = steps.record
    apart = (np.abs(np.diff(record.joints_stamp)) * rate > GAP) | (np.diff(record.target_stamp) <= 0) | ~within[:-1]
    begins = record.cold | (steps.missing > 0) | np.append(True, apart)[: len(within)]
    return steps.chosen(within), begins[within]


def _episodes(run: Run, steps: Steps, begins: Mask, reading: BagReading, left_out: Counter[str]) -> tuple[Mask, Mask]:
    """Return masks (K,) of the steps to keep and of the starts of episodes. Leave out the time before faults and
    episodes that are too short.
    """
    keep, received = np.ones(len(steps), dtype=np.bool_), run.targets.received[steps.target]
    for mode, time in zip(run.mode.modes, run.mode.received, strict=True):
        if mode == Mode.FAULT:
            keep &= (received < time - reading.before_fault) | (received > time)
    left_out[f"a fault followed within {reading.before_fault:g} s"] += int((~keep).sum())
    first = keep & (begins | np.append(True, ~keep)[: len(keep)])
    episode = np.cumsum(first) - 1
    lengths = np.bincount(episode[keep], minlength=1)
    short = keep & (lengths[episode] < SHORTEST * reading.rate)
    left_out[f"their episode is shorter than {SHORTEST:g} s"] += int(short.sum())
    return keep & ~short, first


def _fingerprint(bag: Bag) -> str:
    """Return the SHA-256 (hex) over the contents of the bag's files, which copies share."""
    digest = hashlib.sha256()
    for file in bag.files:
        with file.open("rb") as content:
            while block := content.read(2**20):
                digest.update(block)
    return digest.hexdigest()
