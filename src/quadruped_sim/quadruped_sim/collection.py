"""Collecting experience: the expert walks with disturbed actions, or labels what a student does."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fcnet_core.arrays import Array, Mask
from fcnet_core.files import read_settings
from fcnet_core.learning.dataset import DatasetWriter, Manifest
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.policy import LoadedPolicy, load_policy
from fcnet_core.robot import Robot, load_robot
from quadruped_sim.rollout import Rollout, SetpointRanges, Situation
from quadruped_sim.simulation import CONTROL_PERIOD, TYPICAL, Randomization, noisy
from quadruped_sim.terrain import Terrain, terrain_from_facts


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of experience: `share` of all shards, on terrains cycled through from shard to shard."""

    share: Annotated[float, Meta(gt=0)]
    terrains: Annotated[tuple[dict[str, Any], ...], Meta(min_length=1)]
    setpoints: SetpointRanges
    randomization: Randomization = TYPICAL
    push: float = 0.0  # [m/s], on average every four seconds
    action_noise: float = 0.06  # [rad], largest standard deviation; correlated over a few steps

    def __post_init__(self) -> None:
        for facts in self.terrains:
            terrain_from_facts(**facts)


class CollectionPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of which parts, by name: `shards` of `robots` x `seconds` each."""

    robot: str
    shards: Annotated[int, Meta(ge=1)]
    robots: Annotated[int, Meta(ge=1)]
    seconds: Annotated[float, Meta(gt=0)]
    parts: Annotated[dict[str, Part], Meta(min_length=1)]

    @property
    def steps(self) -> int:
        """Control periods of all robots in one shard."""
        return self.robots * round(self.seconds / CONTROL_PERIOD)


@dataclass(frozen=True)
class Job:
    """One shard to collect, of the part called `name`."""

    index: int
    seed: int
    name: str
    part: Part
    terrain: dict[str, Any] = field(default_factory=dict)

    def build_terrain(self) -> Terrain:
        """The shard's terrain; random ones differ from shard to shard."""
        facts = dict(self.terrain)
        if facts["kind"] in ("rough", "obstacles"):
            facts["seed"] = self.seed
        return terrain_from_facts(**facts)


def load_plan(path: Path) -> CollectionPlan:
    """Read a collection file, such as those in config/collect/; raises FcnetError."""
    return read_settings(path, CollectionPlan, "collection file")


def jobs(plan: CollectionPlan, seed: int) -> list[Job]:
    """The plan's shards, parts interleaved, so that even an interrupted collection holds a bit of everything."""
    total = sum(part.share for part in plan.parts.values())
    made = dict.fromkeys(plan.parts, 0)
    chosen = []
    for index in range(plan.shards):
        lacking = {name: part.share / total * (index + 1) - made[name] for name, part in plan.parts.items()}
        name = max(lacking, key=lacking.__getitem__)
        part = plan.parts[name]
        terrain = part.terrains[made[name] % len(part.terrains)]
        chosen.append(Job(index, seed * 100_000 + index, name, part, terrain))
        made[name] += 1
    return chosen


PUSH_PROBABILITY = CONTROL_PERIOD / 4.0
NOISE_MEMORY = 0.7  # of the action noise, from one step to the next
STUDENT_NOISE = 0.3  # the share of the action noise that a student's own actions get


@dataclass(frozen=True)
class Collector:
    """Everything a worker process needs to make any shard of a plan. `student` is a model file whose policy drives
    `student_share` of the robots while the expert labels what it sees (DAgger); without one the expert drives all.
    """

    plan: CollectionPlan
    folder: Path
    student: Path | None = None
    student_share: float = 0.8

    def writer(self, seed: int) -> DatasetWriter:
        """Open the data folder."""
        robot = load_robot(self.plan.robot)
        parts = [{"name": name, **msgspec.to_builtins(part)} for name, part in self.plan.parts.items()]
        description: dict[str, Any] = {
            "seed": seed,
            "plan": {**msgspec.to_builtins(self.plan), "parts": parts},
            "student": str(self.student) if self.student else None,
        }
        return DatasetWriter(self.folder, Manifest(robot.name, 1 / CONTROL_PERIOD, description))

    def collect(self, job: Job, writer: DatasetWriter) -> int:
        """Make and write one shard; returns how often a robot fell."""
        recorder = _Recorder(self, job, load_robot(self.plan.robot))
        for _ in range(round(self.plan.seconds / CONTROL_PERIOD)):
            recorder.step()
        made = {"part": job.name, "terrain": job.terrain, "seed": job.seed, "falls": recorder.falls}
        observation, action, first = recorder.arrays()
        writer.write_shard(job.index, made, observation=observation, action=action, first=first)
        return recorder.falls


class _Recorder:
    """One shard in the making."""

    def __init__(self, collector: Collector, job: Job, robot: Robot) -> None:
        batch = collector.plan.robots
        self.falls = 0
        self._part = job.part
        self._rollout = Rollout(robot, batch, job.build_terrain(), job.part.setpoints, job.part.randomization, job.seed)
        self._rng = np.random.default_rng([job.seed, 2])
        self._student = _student(collector.student, robot, batch)
        self._driven = self._rng.random(batch) < (collector.student_share if self._student else 0.0)
        self._noise: Array = np.zeros((batch, 12))
        self._noise_scale = self._rng.random((batch, 1)) * job.part.action_noise
        self._first = np.ones(batch, dtype=bool)
        self._observations: list[npt.NDArray[np.float32]] = []
        self._actions: list[npt.NDArray[np.float32]] = []
        self._firsts: list[Mask] = []

    def step(self) -> None:
        seen = self._rollout.observe()
        self._observations.append(seen.observation)
        advice = self._rollout.advise(seen)
        self._actions.append(advice.astype(np.float32))
        self._firsts.append(self._first)
        self._rollout.send(self._targets(seen, advice))
        self._rollout.simulation.push(self._rng.random(len(self._first)) < PUSH_PROBABILITY, self._part.push)
        self._restart_fallen()

    def arrays(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], Mask]:
        """Observations (S, T, 70), labels (S, T, 12) and episode starts (S, T)."""
        return np.stack(self._observations, 1), np.stack(self._actions, 1), np.stack(self._firsts, 1)

    def _targets(self, seen: Situation, advice: Array) -> Array:
        fresh = self._rng.standard_normal(self._noise.shape) * self._noise_scale
        self._noise = NOISE_MEMORY * self._noise + np.sqrt(1 - NOISE_MEMORY**2) * fresh
        targets = advice + self._noise
        if self._student is None:
            return targets
        sensed = noisy(seen.observation, self._part.randomization.noise, self._rng)
        own = self._student.step(sensed) + STUDENT_NOISE * self._noise
        return np.where(self._driven[:, None], own, targets)

    def _restart_fallen(self) -> None:
        fallen = self._rollout.simulation.fallen(self._rollout.simulation.state())
        self._first = fallen
        if fallen.any():
            self.falls += int(fallen.sum())
            self._rollout.restart(fallen)
            self._noise[fallen] = 0.0
            if self._student is not None:
                self._student.reset(fallen)


def _student(path: Path | None, robot: Robot, batch: int) -> LoadedPolicy | None:
    if path is None:
        return None
    model = load_model(path)
    check_robot(model, robot)
    return load_policy(model, batch=batch)
