"""Groups of robots, each on a terrain of the plan, that one worker process simulates for the teacher."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.robot import load_robot
from quadruped_sim.collection import PUSH_INTERVAL, SHARDS, CollectionPlan, Job, jobs
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.task import Rewards, Task
from quadruped_sim.tasks.view import TrueState, View
from quadruped_sim.teacher.privileged import Privileged

ACTION_UNIT = 0.3  # [rad] of a position target from the stand pose, for one unit of an action


class Group:
    """Robots of one part of the plan on one of its terrains. Robots whose episode is over are replaced."""

    def __init__(self, task: Task, robot_name: str, seconds: float, job: Job, size: int) -> None:
        robot = load_robot(robot_name)
        self.name, self.size = job.name, size
        self._robot, self._push = robot, job.part.push
        self._rollout = Rollout(robot, size, job.build_terrain(), job.part.setpoints, job.part.randomization, job.seed)
        self.reward = Rewards(task, size)
        self._privileged = Privileged(task, robot, size, critic=True)
        self._rng = np.random.default_rng([job.seed, 3])
        self._oldest = round(seconds / self._rollout.simulation.period)
        self._age = self._rng.integers(0, self._oldest, size)
        self._seen = self._rollout.observe()
        self.observation = self._observe(TrueState(self._rollout.simulation, self._seen.state))

    def advise(self) -> Array:
        """Return the trot's actions (size, 12); call it in every period or never."""
        return (self._rollout.advise(self._seen) - self._robot.stand_pose) / ACTION_UNIT

    def step(self, action: Array) -> tuple[Single, Array, Mask, Mask, Single]:
        """Take actions (size, 12); return observations, rewards, which robots fell, which reached the time
        limit, and the last observations of robots whose episode is over.
        """
        rollout, shaper = self._rollout, self._rollout.shaper
        period = (shaper.setpoint.copy(), shaper.clock.phase, shaper.clock.walking)
        wanted = self._robot.stand_pose + ACTION_UNIT * action + rollout.simulation.drawn.joint_zero
        targets = (wanted, rollout.send(wanted, record=True), rollout.limiter.previous)
        pushed = self._rng.random(self.size) < rollout.simulation.period / PUSH_INTERVAL
        rollout.simulation.push_randomly(pushed, self._push)
        view = View(rollout.simulation, rollout.simulation.state(), *period, *targets, rollout.recorded)
        reward, fell = self.reward(view)
        self._age += 1
        old = (self._age >= self._oldest) & ~fell
        if not (over := fell | old).any():
            self._seen = rollout.observe()
            self.observation = last = self._observe(view)
        else:
            last = self._observe(view)
            rollout.simulation.redraw(over)
            rollout.restart(over)
            self.reward.reset(over)
            self._age[over] = 0
            self._seen = rollout.observe()
            self.observation = self._observe(TrueState(rollout.simulation, self._seen.state))
        return self.observation, reward, fell, old, last

    def _observe(self, seen: TrueState) -> Single:
        return self._privileged.observe(seen, self._rollout.shaper, self._rollout.limiter)


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
        self._groups = [self._next() for _ in range(groups)]
        self._periods, self._progress = 0, Progress()

    def observe(self) -> Single:
        """Return the observations (robots, n) of the critic."""
        return np.concatenate([group.observation for group in self._groups])

    def advise(self) -> Array:
        """Return the trot's actions (robots, 12)."""
        return np.concatenate([group.advise() for group in self._groups])

    def step(self, actions: Array) -> tuple[npt.NDArray[Any], ...]:
        """Step all groups; see Group.step."""
        parts = np.split(actions, len(self._groups))
        results = [group.step(part) for group, part in zip(self._groups, parts, strict=True)]
        for group, (_, _, fell, _, _) in zip(self._groups, results, strict=True):
            self._progress.steps[group.name] += group.size
            self._progress.falls[group.name] += int(fell.sum())
        self._periods += 1
        number, over = divmod(self._periods, self._renewal)
        if not over:
            oldest = number % len(self._groups)
            last, reward, fell, old, before = results[oldest]
            ended = (fell | old)[:, None]
            self._progress.terms.update(self._groups[oldest].reward.totals)
            self._groups[oldest] = self._next()
            results[oldest] = (
                self._groups[oldest].observation, reward, fell, ~fell, np.where(ended, before, last)
            )  # fmt: skip
        return tuple(np.concatenate(arrays) for arrays in zip(*results, strict=True))

    def progress(self) -> Progress:
        """Return the counts since the last call."""
        done, self._progress = self._progress, Progress()
        for group in self._groups:
            done.terms.update(group.reward.totals)
            group.reward.totals = Counter()
        return done

    def _next(self) -> Group:
        return Group(self._task, self._plan.robot, self._plan.seconds, next(self._jobs), self._size)
