"""Collecting experience: the expert walks with disturbed actions, or labels what a student does."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from fcnet_core.learning.dataset import DatasetWriter
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.robot import JOINT_NAMES, Robot, load_robot
from fcnet_core.runtime import LoadedPolicy, load_policy
from quadruped_sim.rollout import Rollout, SetpointRanges, Situation
from quadruped_sim.simulation import CONTROL_PERIOD, TYPICAL, Randomization, noisy
from quadruped_sim.terrain import Terrain, terrain_from_facts

# What to collect: a YAML file of parts, each a terrain with setpoints and disturbances, cut into shards.

Range = tuple[float, float]


class CollectionPlanError(ValueError):
    """A collection file is missing or cannot be used; the message says where and why."""


@dataclass(frozen=True)
class Part:
    """One kind of experience: `share` of all shards, on terrains cycled through from shard to shard."""

    name: str
    share: float
    terrains: tuple[dict[str, Any], ...]
    setpoints: SetpointRanges
    randomization: Randomization
    push: float = 0.0  # [m/s], on average every four seconds
    action_noise: float = 0.06  # [rad], largest standard deviation; correlated over a few steps


@dataclass(frozen=True)
class CollectionPlan:
    """How much of which parts: `shards` of `robots` x `seconds` each."""

    robot: str
    shards: int
    robots: int
    seconds: float
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        for name in ("shards", "robots", "seconds"):
            if not getattr(self, name) > 0:
                raise CollectionPlanError(f"{name} must be more than 0, not {getattr(self, name)}")


@dataclass(frozen=True)
class Job:
    """One shard to collect."""

    index: int
    seed: int
    part: Part
    terrain: dict[str, Any] = field(default_factory=dict)

    def build_terrain(self) -> Terrain:
        """The shard's terrain; random ones differ from shard to shard."""
        facts = dict(self.terrain)
        if facts["kind"] in ("rough", "obstacles"):
            facts["seed"] = self.seed
        return terrain_from_facts(**facts)


def load_plan(path: Path) -> CollectionPlan:
    """Read a collection file; CollectionPlanError says what is wrong in one sentence."""
    if not path.is_file():
        raise CollectionPlanError(f"there is no collection file {path}; see config/collect/ for those that ship")
    try:
        facts = yaml.safe_load(path.read_text())
        parts = tuple(_part(name, **entry) for name, entry in facts.pop("parts").items())
        return CollectionPlan(parts=parts, **facts)
    except KeyError as error:
        raise CollectionPlanError(f"collection file {path} lacks the entry {error}") from error
    except (TypeError, ValueError, AttributeError, yaml.YAMLError) as error:
        raise CollectionPlanError(f"collection file {path} cannot be used: {error}") from error


def jobs(plan: CollectionPlan, seed: int) -> list[Job]:
    """The plan's shards, parts interleaved, so that even an interrupted collection holds a bit of everything."""
    total = sum(part.share for part in plan.parts)
    made = dict.fromkeys(range(len(plan.parts)), 0)
    chosen = []
    for index in range(plan.shards):
        wanted = [plan.parts[i].share / total * (index + 1) - made[i] for i in made]
        which = max(made, key=lambda i: wanted[i])
        part = plan.parts[which]
        chosen.append(Job(index, seed * 100_000 + index, part, part.terrains[made[which] % len(part.terrains)]))
        made[which] += 1
    return chosen


def _part(
    name: str,
    share: float,
    terrains: list[dict[str, Any]],
    setpoints: dict[str, Any],
    randomization: dict[str, Any] | None = None,
    **rest: float,
) -> Part:
    always, sometimes = (_ranges(setpoints.pop(key, {})) for key in ("always", "sometimes"))
    drawn = Randomization(**{**vars(TYPICAL), **{k: _pair(v) for k, v in (randomization or {}).items()}})
    for facts in terrains:
        terrain_from_facts(**facts)
    hold = _pair(setpoints.pop("hold", (1.5, 5.0)))
    asked = SetpointRanges(always=always, sometimes=sometimes, hold=hold, **setpoints)
    return Part(name, share, tuple(terrains), asked, drawn, **rest)


def _ranges(entries: dict[str, Any]) -> dict[str, Range]:
    return {name: _pair(value) for name, value in entries.items()}


def _pair(value: Any) -> Range:
    low, high = value if isinstance(value, list | tuple) else (value, value)
    return float(low), float(high)


Array = npt.NDArray[np.float64]

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
        description: dict[str, Any] = {
            "robot": robot.name,
            "control_rate": 1 / CONTROL_PERIOD,
            "joint_names": list(JOINT_NAMES),
            "seed": seed,
            "plan": _plain(asdict(self.plan)),
            "student": str(self.student) if self.student else None,
        }
        return DatasetWriter(self.folder, description)

    def collect(self, job: Job, writer: DatasetWriter) -> int:
        """Make and write one shard; returns how often a robot fell."""
        recorder = _Recorder(self, job, load_robot(self.plan.robot))
        for _ in range(round(self.plan.seconds / CONTROL_PERIOD)):
            recorder.step()
        made = {"part": job.part.name, "terrain": job.terrain, "seed": job.seed, "falls": recorder.falls}
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
        self._firsts: list[npt.NDArray[np.bool_]] = []

    def step(self) -> None:
        seen = self._rollout.observe()
        self._observations.append(seen.observation)
        advice = self._rollout.advise(seen)
        self._actions.append(advice.astype(np.float32))
        self._firsts.append(self._first)
        self._rollout.send(self._targets(seen, advice))
        self._rollout.simulation.push(self._rng.random(len(self._first)) < PUSH_PROBABILITY, self._part.push)
        self._restart_fallen()

    def arrays(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
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


def _plain(value: Any) -> Any:
    """The same value with tuples as lists, as JSON gives it back."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value
