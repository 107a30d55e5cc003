"""Groups of robots, each on a terrain of the plan, that one worker process simulates for the teacher."""

from collections import Counter, defaultdict
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta
from msgspec.structs import replace

from fcnet_core.arrays import Array, Single
from fcnet_core.files import Count, NotNegative, Positive, Seed
from quadruped_sim.collection import SHARDS, CollectionPlan, jobs
from quadruped_sim.tasks.robots import RenewedRobots, TaskRobots
from quadruped_sim.tasks.task import Task


class TeacherConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of imitation, robots and PPO (Schulman et al., 2017), the latter in the words of stable-baselines3."""

    hidden: Annotated[tuple[Count, ...], Meta(min_length=1)] = (256, 256, 128)
    imitation_steps: Count = 1200  # control periods of all robots that the trot shows
    imitation_epochs: Count = 8
    robots: Count = 96  # of each worker
    groups: Count = 8  # of these, each on a terrain of its own
    renewal: Count = 720  # control periods after which the oldest group makes place for the next
    n_steps: Count = 48
    batch_size: Count = 2304
    n_epochs: Count = 5
    learning_rate: Positive = 1e-4
    critic_learning_rate: Positive = 1e-3
    gamma: Positive = 0.99
    gae_lambda: Positive = 0.95
    clip_range: Positive = 0.2
    target_kl: Positive = 0.02
    action_deviation: Positive = 0.15  # of the exploration at first, in units of the action
    entropy: NotNegative = 0.0
    critic_rounds: Count = 15  # at first, in which the critic alone learns
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.groups > self.robots:
            raise ValueError(f"{self.robots} robots cannot form {self.groups} groups")


# steps, falls: control periods and falls of the robots by part of the plan; terms: the sum of each term of the reward
# over robots and periods.
Progress = defaultdict[str, Counter[str]]


class Groups:
    """The groups of one process, taken from the plan in turn. Every `renewal` control periods the plan's next group
    replaces the oldest, whose episodes are cut off.
    """

    def __init__(self, task: Task, plan: CollectionPlan, config: TeacherConfig, seed: int) -> None:
        self._task, self._plan, self._config = replace(task, robot=plan.robot), plan, config
        self._jobs = jobs(replace(plan, shards=SHARDS), seed)
        self._groups = [self._next() for _ in range(config.groups)]
        self._periods, self._progress = 0, Progress(Counter)

    def observe(self) -> Single:
        """Return the observations (robots, n) of the critic."""
        return np.concatenate([group.observe() for _, group in self._groups])

    def advise(self) -> Array:
        """Return the trot's actions (robots, N)."""
        return np.concatenate([group.robots.advise() for _, group in self._groups])

    def step(self, actions: Array) -> tuple[npt.NDArray[Any], ...]:
        """Step all groups; see RenewedRobots.step."""
        parts, results = np.split(actions, len(self._groups)), []
        for (name, group), part in zip(self._groups, parts, strict=True):
            results.append(group.step(part))
            fell = results[-1][2]
            self._progress["steps"][name] += len(fell)
            self._progress["falls"][name] += int(fell.sum())
        self._periods += 1
        number, over = divmod(self._periods, self._config.renewal)
        if not over:
            oldest = number % len(self._groups)
            last, reward, fell, old, before = results[oldest]
            self._progress["terms"].update(self._groups[oldest][1].robots.rewards.totals)
            self._groups[oldest] = self._next()
            last = np.where((fell | old)[:, None], before, last)
            results[oldest] = self._groups[oldest][1].observe(), reward, fell, ~fell, last
        return tuple(np.concatenate(arrays) for arrays in zip(*results, strict=True))

    def progress(self) -> Progress:
        """Return the counts since the last call."""
        done, self._progress = self._progress, Progress(Counter)
        for _, group in self._groups:
            done["terms"].update(group.robots.rewards.totals)
            group.robots.rewards.totals = Counter()
        return done

    def _next(self) -> tuple[str, RenewedRobots]:
        """Return the name of the plan's next part, and robots on its terrain."""
        job = next(self._jobs)
        part, size = job.part, self._config.robots // self._config.groups
        work = {"commands": part.setpoints, "randomization": part.randomization, "push": part.push}
        task = replace(self._task, terrains=(job.terrain,), **work)
        robots = TaskRobots(task, size, job.seed, privileged=True)
        return job.name, RenewedRobots(robots, self._plan.seconds, job.seed)
