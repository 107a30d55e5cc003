"""Bags become a dataset: walking sections as episodes of what the policy saw and the targets that were sent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.learning.dataset import DatasetError, DatasetWriter
from fcnet_core.robot import JOINT_NAMES
from fcnet_replay.datasets.walking import BagReading, RecordedWalk, read_walk

# A new data folder that appears under its name only when all of it is there.

class NewDataset:
    """Takes shards one after the other, and what they are when the last is written; `new_dataset` makes one."""

    def __init__(
        self, folder: Path, robot: str, control_rate: float, joint_names: tuple[str, ...] = JOINT_NAMES
    ) -> None:
        self.folder = folder
        self.robot = robot
        self.shards = self.steps = 0
        self._facts = {"robot": robot, "control_rate": control_rate, "joint_names": list(joint_names)}
        self._writer = DatasetWriter(folder, self._facts)

    def add(
        self, observation: npt.ArrayLike, action: npt.ArrayLike, first: npt.NDArray[Any], job: dict[str, Any]
    ) -> None:
        """Write the next shard; raises DatasetError as DatasetWriter.write_shard does."""
        self._writer.write_shard(self.shards, job, observation=observation, action=action, first=first)
        self.shards += 1
        self.steps += int(first.size)

    def describe(self, description: dict[str, Any]) -> None:
        """Write the manifest with how it came about and how much there is, which validation compares."""
        (self.folder / "manifest.json").unlink()
        DatasetWriter(self.folder, {**self._facts, **description, "shards": self.shards, "steps": self.steps})


def refuse_existing(folder: Path) -> None:
    """Raise DatasetError when there is something at `folder`: nothing is ever overwritten."""
    if folder.exists() or folder.is_symlink():
        raise DatasetError(f"{folder} exists already; name another folder with -o, or delete that one")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `folder` at the end, or vanishes when something went wrong."""
    refuse_existing(folder)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        refuse_existing(folder)
        partial.rename(folder)
    except OSError as error:
        raise DatasetError(
            f"{folder} could not be written ({error.strerror or error}); nothing is left of it"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


SHARD_STEPS = 50_000  # a shard is written when it has so many steps: about 17 minutes at 50 Hz
Tell = Callable[[str], None]


def dataset_from_bags(bags: Sequence[Path], folder: Path, reading: BagReading, tell: Tell) -> NewDataset:
    """Write the walking sections of all bags, one bag in memory at a time; `tell` gets a sentence on each.

    Raises DatasetError when the bags do not belong together or hold nothing to learn from, and what read_walk raises.
    """
    with new_folder(folder) as partial:
        data: NewDataset | None = None
        told: list[dict[str, Any]] = []
        for walk in (read_walk(path, reading) for path in bags):
            data = data or NewDataset(partial, walk.robot.name, reading.rate)
            check_belongs(walk, told, bags[0], data.robot)
            told.append(walk.provenance)
            for line in account(walk):
                tell(line)
            for part in _shards(walk.episodes):
                _add(data, walk, part)
        if data is None or not data.steps:
            raise DatasetError(f"{', '.join(map(str, bags))} hold no walking to learn from; {folder} was not written")
        data.describe({"source": "bags", "labels": "the targets that were sent", "bags": told})
    return data


def check_belongs(walk: RecordedWalk, told: Sequence[dict[str, Any]], first: Path, robot: str) -> None:
    """Raise DatasetError when a bag is of another robot than the first, or was read already."""
    if walk.robot.name != robot:
        raise DatasetError(
            f"{walk.path} is of the robot {walk.robot.name} and {first} of {robot}; make one dataset of each robot"
        )
    if any(walk.fingerprint == other["fingerprint"] for other in told):
        raise DatasetError(f"{walk.path} holds the same recording as a bag named before it; name it once")


def account(walk: RecordedWalk) -> Iterator[str]:
    """What a bag gives, what was left out and why."""
    steps = sum(part.stop - part.start for part in walk.episodes)
    how = (
        ""
        if walk.steps.basis == "recorded"
        else ", inferred from targets, commands and modes: the gait's phase is good to some 40 ms"
    )
    yield f"{walk.path}: {steps:,} steps in {len(walk.episodes)} episodes of {walk.robot.name}{how}"
    if not len(walk.steps):
        yield f"  no walking found{'' if walk.run.mode.modes else ', and the bag has no controller/mode to tell it by'}"
    if walk.steps.basis == "inferred" and len(walk.steps):
        yield from _silent_commands(walk)
    for reason, count in walk.steps.left_out.items():
        if count:
            yield f"  {count:,} steps left out: {reason}"
    for problem in walk.run.problems:
        yield f"  {problem}"


def _silent_commands(walk: RecordedWalk) -> Iterator[str]:
    """Commands of which the bag has no message, and which the steps therefore have at zero."""
    if silent := walk.run.silent:
        yield f"  no {' and no '.join(silent)} in the bag, taken as zero: if one was sent, these data are wrong"


def _shards(episodes: list[slice]) -> Iterator[list[slice]]:
    """Episodes in groups of about SHARD_STEPS; a longer one is cut."""
    group: list[slice] = []
    steps = 0
    for episode in episodes:
        for start in range(episode.start, episode.stop, SHARD_STEPS):
            part = slice(start, min(start + SHARD_STEPS, episode.stop))
            if group and steps + part.stop - part.start > SHARD_STEPS:
                yield group
                group, steps = [], 0
            group.append(part)
            steps += part.stop - part.start
    if group:
        yield group


def _add(data: NewDataset, walk: RecordedWalk, parts: list[slice]) -> None:
    observation = np.concatenate([walk.steps.observation(part) for part in parts])
    action = np.concatenate([walk.steps.target[part] for part in parts])
    first = np.zeros(len(action), dtype=np.bool_)
    first[np.cumsum([0, *(part.stop - part.start for part in parts[:-1])])] = True
    job = {"bag": walk.path.name, "episodes": [walk.times(part) for part in parts]}
    data.add(observation[None], action[None], first[None], job)
