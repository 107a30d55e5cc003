"""Collection of experience: the expert walks with disturbed actions, or labels the states that a student visits."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fcnet_core.errors import SimulationError
from fcnet_core.files import NotNegative, Positive, preset, read_settings
from fcnet_core.learning.dataset import DatasetWriter, velocity_manifest
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.robot import load_robot
from quadruped_sim.physics.body import RATE
from quadruped_sim.physics.randomization import TYPICAL, Randomization
from quadruped_sim.physics.terrain import terrain_from_facts
from quadruped_sim.rollout import ActionNoise, Rollout
from quadruped_sim.tasks.setpoints import SetpointRanges

FILE = "collection file"
SHARDS = 100_000  # of one plan: as many seeds lie between those of one collection and the next
Shards = Annotated[int, Meta(ge=1, le=SHARDS)]
MOST_STEPS = 20_000_000  # of one shard: 7 GB
PUSH_INTERVAL = 4.0  # [s] between two pushes of a robot, on average


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of experience: `share` of all shards, on terrains cycled through from shard to shard."""

    share: Positive
    terrains: Annotated[tuple[dict[str, Any], ...], Meta(min_length=1)]
    setpoints: SetpointRanges
    randomization: Randomization = TYPICAL
    push: NotNegative = 0.0  # [m/s], on average every four seconds
    action_noise: NotNegative = 0.06  # [rad], largest standard deviation; correlated over a few steps

    def __post_init__(self) -> None:
        for facts in self.terrains:
            terrain_from_facts(**facts)


class CollectionPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of which parts, by name: `shards` of `robots` x `seconds` each."""

    robot: str
    shards: Shards
    robots: Annotated[int, Meta(ge=1, le=10_000)]
    seconds: Positive
    parts: Annotated[dict[str, Part], Meta(min_length=1)]
    rate: Positive = RATE  # [Hz] of states and targets

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MOST_STEPS:
            shard = f"{self.robots} robots for {self.seconds:g} s are {self.steps} steps in a shard"
            raise ValueError(f"{shard}, expected 1 to {MOST_STEPS}")

    @property
    def steps(self) -> int:
        """Control periods of all robots in one shard."""
        return self.robots * round(self.seconds * self.rate)


@dataclass(frozen=True)
class Job:
    """One shard to collect, of the part called `name`."""

    index: int
    seed: int
    name: str
    part: Part
    terrain: dict[str, Any]


def load_plan(path: Path) -> CollectionPlan:
    """Read a collection file, or one of config/collect/ by its name; raises FcnetError."""
    return read_settings(preset(path, "collect", FILE), CollectionPlan, FILE)


def jobs(plan: CollectionPlan, seed: int) -> Iterator[Job]:
    """Yield the plan's shards with parts interleaved, so that an interrupted collection holds some of each part."""
    total = sum(part.share for part in plan.parts.values())
    made = dict.fromkeys(plan.parts, 0)
    for index in range(plan.shards):
        lacking = {name: part.share / total * (index + 1) - made[name] for name, part in plan.parts.items()}
        name = max(lacking, key=lacking.__getitem__)
        part = plan.parts[name]
        yield Job(index, seed * SHARDS + index, name, part, part.terrains[made[name] % len(part.terrains)])
        made[name] += 1


@dataclass(frozen=True)
class Collector:
    """All that a worker process needs to make any shard of a plan. The expert is the `teacher` of that model file, or
    else the trot. `student` is a model file whose policy drives `student_share` of the robots while the expert labels
    what it sees (DAgger); without one the expert drives all.
    """

    plan: CollectionPlan
    folder: Path
    seed: int
    student: Path | None = None
    teacher: Path | None = None
    student_share: float = 0.8

    def writer(self) -> DatasetWriter:
        """Open the data folder."""
        parts = [{"name": name, **msgspec.to_builtins(part)} for name, part in self.plan.parts.items()]
        description: dict[str, Any] = {
            "seed": self.seed,
            "plan": {**msgspec.to_builtins(self.plan), "parts": parts},
            "student": str(self.student) if self.student else None,
            "teacher": load_model(self.teacher).fingerprint if self.teacher else None,
        }
        return DatasetWriter(self.folder, velocity_manifest(load_robot(self.plan.robot), self.plan.rate, description))

    def collect(self, job: Job) -> dict[str, Any]:
        """Make and write one shard unless it exists; return its index, part, steps, falls, and the seconds it took."""
        began, writer = time.perf_counter(), self.writer()
        if not writer.has(job.index):  # else its worker died before it could report it
            arrays, falls = self._walk(job)
            made = {"part": job.name, "terrain": job.terrain, "seed": job.seed, "falls": falls}
            writer.write_shard(job.index, made, **arrays)
        falls, seconds = int(writer.job(job.index)["falls"]), round(time.perf_counter() - began, 1)
        return {"shard": job.index, "part": job.name, "steps": self.plan.steps, "falls": falls, "seconds": seconds}

    def _walk(self, job: Job) -> tuple[dict[str, npt.NDArray[Any]], int]:
        """Return the arrays of a shard, and the number of falls."""
        robot, batch, part = load_robot(self.plan.robot), self.plan.robots, job.part
        student, teacher = (load_model(path) if path else None for path in (self.student, self.teacher))
        if student:
            check_robot(student, robot)
            rate = student.card.interface.rate
            if not np.isclose(rate, self.plan.rate):
                what = "set rate in the collection file to that of the student"
                raise SimulationError(f"the student steps at {rate:g} Hz, the plan at {self.plan.rate:g} Hz; {what}")
        terrain = terrain_from_facts(**(job.terrain | {"seed": job.seed}))  # random ones differ from shard to shard
        work = (part.setpoints, part.randomization, job.seed, student)
        rollout = Rollout(robot, batch, terrain, *work, teacher=teacher, rate=self.plan.rate)
        simulation, rng = rollout.simulation, np.random.default_rng([job.seed, 5])
        driven = rng.random((batch, 1)) < (self.student_share if student else 0.0)
        noise = ActionNoise(batch, part.action_noise, rng)
        fallen, falls = np.ones(batch, dtype=bool), 0
        recorded: dict[str, list[npt.NDArray[Any]]] = {"observation": [], "action": [], "first": []}
        for _ in range(self.plan.steps // batch):
            seen = rollout.observe()
            advice = rollout.advise(seen)
            recorded["observation"].append(seen.observation)
            recorded["action"].append(rollout.limiter.within_limits(advice).astype(np.float32))
            recorded["first"].append(fallen)
            rollout.send(noise.disturb(advice, rollout.act(seen) if student else None, driven))
            simulation.push_randomly(rng.random(batch) < simulation.period / PUSH_INTERVAL, part.push)
            fallen = simulation.fallen(simulation.state())
            if fallen.any():
                falls += int(fallen.sum())
                rollout.restart(fallen)
                noise.reset(fallen)
        return {name: np.stack(steps, axis=1) for name, steps in recorded.items()}, falls
