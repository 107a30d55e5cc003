"""Groups of robots, each on a terrain of the plan, that one worker process simulates for the teacher."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from fcnet_core.arrays import Array, Single
from fcnet_core.robot import load_robot
from quadruped_sim.collection import SHARDS, CollectionPlan, jobs
from quadruped_sim.tasks.robots import RenewedRobots, TaskRobots
from quadruped_sim.tasks.task import Task


@dataclass(frozen=True)
class Progress:
    """Control periods and falls of the robots by part of the plan, and the sum of each term of the reward over robots
    and periods.
    """

    steps: Counter[str] = field(default_factory=Counter)
    falls: Counter[str] = field(default_factory=Counter)
    terms: Counter[str] = field(default_factory=Counter)

    def update(self, other: Progress) -> None:
        """Add the counts of another one."""
        self.steps.update(other.steps)
        self.falls.update(other.falls)
        self.terms.update(other.terms)


class Groups:
    """The groups of one process, taken from the plan in turn. Every `renewal` control periods the plan's next group
    replaces the oldest, whose episodes are cut off.
    """

    def __init__(self, task: Task, plan: CollectionPlan, robots: int, groups: int, renewal: int, seed: int) -> None:
        self._task, self._plan, self._size, self._renewal = task, plan, robots // groups, renewal
        self._jobs = iter(jobs(replace(plan, shards=SHARDS), seed))
        self._names, self._groups = map(list, zip(*(self._next() for _ in range(groups)), strict=True))
        self._periods, self._progress = 0, Progress()

    def observe(self) -> Single:
        """Return the observations (robots, n) of the critic."""
        return np.concatenate([group.observe() for group in self._groups])

    def advise(self) -> Array:
        """Return the trot's actions (robots, N)."""
        return np.concatenate([group.robots.advise() for group in self._groups])

    def step(self, actions: Array) -> tuple[npt.NDArray[Any], ...]:
        """Step all groups; see RenewedRobots.step."""
        parts = np.split(actions, len(self._groups))
        results = [group.step(part) for group, part in zip(self._groups, parts, strict=True)]
        for name, (_, _, fell, _, _) in zip(self._names, results, strict=True):
            self._progress.steps[name] += self._size
            self._progress.falls[name] += int(fell.sum())
        self._periods += 1
        number, over = divmod(self._periods, self._renewal)
        if not over:
            oldest = number % len(self._groups)
            last, reward, fell, old, before = results[oldest]
            ended = (fell | old)[:, None]
            self._progress.terms.update(self._groups[oldest].robots.rewards.totals)
            self._names[oldest], self._groups[oldest] = self._next()
            results[oldest] = (
                self._groups[oldest].observe(), reward, fell, ~fell, np.where(ended, before, last)
            )  # fmt: skip
        return tuple(np.concatenate(arrays) for arrays in zip(*results, strict=True))

    def progress(self) -> Progress:
        """Return the counts since the last call."""
        done, self._progress = self._progress, Progress()
        for group in self._groups:
            done.terms.update(group.robots.rewards.totals)
            group.robots.rewards.totals = Counter()
        return done

    def _next(self) -> tuple[str, RenewedRobots]:
        """Return the name of the plan's next part, and robots on its terrain."""
        job = next(self._jobs)
        work = (job.build_terrain(), job.part.setpoints, job.part.randomization, job.part.push)
        robots = TaskRobots(self._task, self._size, job.seed, load_robot(self._plan.robot), *work, privileged=True)
        return job.name, RenewedRobots(robots, self._plan.seconds, job.seed)
