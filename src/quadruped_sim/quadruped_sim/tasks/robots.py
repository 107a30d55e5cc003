"""The robots of a task: simulated, commanded, observed, rewarded, and replaced when their episodes end."""

from typing import Literal

import numpy as np

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.errors import SimulationError
from quadruped_sim.collection import PUSH_INTERVAL
from quadruped_sim.physics.terrain import Terrain, terrain_from_facts
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.task import Rewards, Task
from quadruped_sim.tasks.view import TrueState, View
from quadruped_sim.teacher.expert import ACTION_UNIT, Privileged


class TaskRobots:
    """`batch` robots of a task on one ground, by default the task's, each with its own draw of the randomisation.

    They see what a policy sees, with noise, and take the outputs of its network. With `privileged` they see what the
    critic of a teacher sees, without noise, and take a teacher's actions. pays: the section of the task that rewards
    them.
    """

    def __init__(
        self,
        task: Task,
        batch: int,
        seed: int,
        terrain: Terrain | None = None,
        pays: Literal["rewards", "score"] = "rewards",
        privileged: bool = False,
    ) -> None:
        self.robot = robot = task.driven()
        facts = task.terrains[seed % len(task.terrains)]
        interface = task.policy_interface(robot)
        work = (terrain or terrain_from_facts(**(facts | {"seed": seed})), task.commands, task.randomization, seed)
        self.rollout = Rollout(robot, batch, *work, interface=interface)
        self.simulation, self.rewards = self.rollout.simulation, Rewards(task, batch, pays)
        self._push, self._rng = task.push, np.random.default_rng([seed, 4])
        self._privileged = Privileged(task, robot, batch, critic=True) if privileged else None
        self._noise, self._clip = task.noise_levels(interface), next(iter(interface.inputs.values())).clip
        self._true: TrueState | None = None  # that of the last step, until robots restart
        self._lies = task.start == "lying"
        self._start(np.ones(batch, dtype=bool))
        self.observe()

    def observe(self, new_command: bool = True) -> Single:
        """Return what the robots see, `observation` (B, n), after a step of the commands. Without a new command return
        what they see under those of the last period; call it with one once in a control period.
        """
        rollout = self.rollout
        self.seen = rollout.observe(new_command)
        if self._privileged:
            true = self._true or TrueState(self.simulation, self.seen.state)
            seen = self._privileged.observe(true, rollout.shaper, rollout.limiter)
        elif self._noise is None:
            seen = rollout.sense(self.seen)
        else:
            noise = self._noise * self._rng.uniform(-1.0, 1.0, self.seen.observation.shape)
            seen = np.clip(self.seen.observation + noise, -self._clip, self._clip).astype(np.float32)
        if new_command:
            self.observation = seen
        return seen

    def step(self, actions: Array, idle: Mask | None = None) -> tuple[Array, Mask]:
        """Take actions (B, N) for one control period, in which robots in `idle` (B,) do not move. Return rewards (B,),
        and the robots (B,) whose episodes end.
        """
        rollout, shaper, simulation = self.rollout, self.rollout.shaper, self.simulation
        moves = np.ones(simulation.batch, dtype=bool) if idle is None else ~idle
        if actions.shape != rollout.limiter.last.shape or not np.isfinite(actions[moves]).all():
            raise SimulationError(f"actions must be finite numbers {rollout.limiter.last.shape}, one for each joint")
        period, started = (shaper.setpoint.copy(), shaper.clock.phase, shaper.clock.walking), simulation.time
        actions = np.where(moves[:, None], actions, 0.0)
        if self._privileged:
            requested = self.robot.stand_pose + ACTION_UNIT * actions + simulation.drawn["joint_zero"]
        else:
            requested = rollout.runner.decode(actions)
        requested = np.where(moves[:, None], requested, rollout.limiter.last)
        simulation.active = moves
        targets = (requested, rollout.send(requested, record=True), rollout.limiter.previous)
        if self._push:
            simulation.push_randomly(self._rng.random(simulation.batch) < simulation.period / PUSH_INTERVAL, self._push)
        self._true = view = View(simulation, simulation.state(), *period, *targets, rollout.recorded)
        rewards, ends = self.rewards(view)
        ends |= simulation.time < started  # MuJoCo resets a robot whose motion diverges
        return np.where(moves, rewards, 0.0), ends & moves

    def advise(self) -> Array:
        """Return the trot's targets as actions (B, N) of a teacher; call it in every control period or never."""
        return (self.rollout.advise(self.seen) - self.robot.stand_pose) / ACTION_UNIT

    def restart(self, mask: Mask) -> None:
        """Replace the robots in `mask` (B,)."""
        if mask.any():
            self._true = None
            self.simulation.redraw(mask)
            self.rollout.restart(mask)
            self.rewards.reset(mask)
            self._start(mask)

    def _start(self, mask: Mask) -> None:
        """Lay down the robots in `mask` (B,) if the task starts so."""
        if self._lies:
            for index in np.flatnonzero(mask):
                self.simulation.lay_down(int(index), self._rng.uniform(-np.pi, np.pi))
            self.rollout.limiter.start(self.simulation.state().joint_position, mask)


class RenewedRobots:
    """Robots that are replaced when their episode ends or reaches the time limit, for reinforcement.WorkerEnvironment.
    The first episodes have random lengths, so that they do not all end together.
    """

    def __init__(self, robots: TaskRobots, seconds: float, seed: int) -> None:
        self.robots, self._longest = robots, round(seconds / robots.simulation.period)
        self._age = np.random.default_rng([seed, 5]).integers(0, self._longest, robots.simulation.batch)

    def observe(self) -> Single:
        """Return the observations (B, n) now."""
        return self.robots.observation

    def step(self, actions: Array) -> tuple[Single, Array, Mask, Mask, Single]:
        """Take actions (B, N); return observations, rewards, whose episode ended, whose reached the time limit, and the
        last observations of robots whose episode is over.
        """
        rewards, ended = self.robots.step(actions)
        self._age += 1
        old = (self._age >= self._longest) & ~ended
        last = None
        if (over := ended | old).any():
            last = self.robots.observe(new_command=False)
            self.robots.restart(over)
            self._age[over] = 0
        now = self.robots.observe()
        return now, rewards, ended, old, now if last is None else last
