"""The robots of a task as a Gymnasium environment of one robot and as one of many.

Observations and actions are those of the task's interface. In fcnet/Aliengo-v0 and fcnet/A1-v0 these are a policy's on
the robot, so that a policy of the suite walks here as it is, and what learns here can walk there. Observation (n,):
fcnet_core.observation.velocity_interface, as noisy sensors measure it. Action (N,): joint position targets [rad] in the
robot's order for one control period, limited as by the controller. An episode ends when the robot falls.
"""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from msgspec import Struct

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.files import Positive, converted
from fcnet_core.robot import Robot, load_robot
from quadruped_sim.environments import EPISODE
from quadruped_sim.physics.randomization import Randomization, Range
from quadruped_sim.physics.terrain import Terrain, named_terrain, terrain_from_facts
from quadruped_sim.tasks.robots import TaskRobots
from quadruped_sim.tasks.setpoints import SetpointRanges
from quadruped_sim.tasks.task import Task, load_task

LARGEST = 100.0  # of observations and actions without limits of their own


class Settings(Struct, frozen=True):
    """Settings of `gymnasium.make`; what is not given is the task's.

    task: a name in config/tasks, or the path of a task file. robot: a name, or the path of a robot file. terrain: a
    name of `fcnet list terrains`, or the kind and the facts of one, as in config/collect. commands: by setpoint field
    the range, or the value, from which a command is drawn that holds for 1.5 to 5 s; other fields are zero.
    randomization: the fields that differ, see randomization.Randomization. rate [Hz]: of observations and actions,
    unless the task has an interface. pays: rewards or score of the task.
    """

    task: str = "velocity"
    robot: str | None = None
    terrain: str | dict[str, Any] | None = None
    commands: dict[str, Range] | None = None
    randomization: dict[str, Any] = {}
    rate: Positive | None = None
    pays: Literal["rewards", "score"] = "rewards"


class Robots:
    """Makes the robots of an environment. Raises FcnetError for an invalid value, and TypeError for an unknown setting,
    which stable-baselines3 expects when it asks every environment for a render_mode.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        if unknown := sorted(given.keys() - set(Settings.__struct_fields__)):
            raise TypeError(f"there is no setting {unknown[0]!r}; known are {', '.join(Settings.__struct_fields__)}")
        self.settings = settings = converted(given, Settings)
        task = load_task(settings.task)
        self.task: Task = msgspec.structs.replace(task, rate=settings.rate or task.rate)
        self.robot: Robot = load_robot(settings.robot or self.task.robot)
        chosen = msgspec.to_builtins(self.task.randomization) | settings.randomization
        self.randomization = converted(chosen, Randomization)
        self.commands = None if settings.commands is None else converted({"always": settings.commands}, SetpointRanges)
        self.ground(0)

    def ground(self, seed: int) -> Terrain | None:
        """Return the terrain, if it is not the task's; the seed decides a random one."""
        chosen = self.settings.terrain
        if isinstance(chosen, str):
            return named_terrain(chosen, seed=seed)
        return None if chosen is None else terrain_from_facts(**(chosen | {"seed": seed}))

    def make(self, batch: int, seed: int) -> TaskRobots:
        """Return `batch` robots."""
        chosen = (self.robot, self.ground(seed), self.commands, self.randomization)
        return TaskRobots(self.task, batch, seed, *chosen, pays=self.settings.pays)

    def spaces(self) -> tuple[gymnasium.Space[Single], gymnasium.Space[Single]]:
        """Return the spaces of observations and actions of one robot."""
        interface, limits = self.task.policy_interface(self.robot), [self.robot.lower, self.robot.upper]
        if np.isfinite(interface.action.clip):
            limits = [np.full(interface.values, side * interface.action.clip) for side in (-1.0, 1.0)]
        lowest, highest = (limit.astype(np.float32) for limit in limits)
        (shape,) = interface.shapes.values()
        return gymnasium.spaces.Box(-LARGEST, LARGEST, shape, np.float32), gymnasium.spaces.Box(lowest, highest)


class OneRobot(gymnasium.Env[Single, Single]):
    """One robot of a task. A reset replaces it; a reset with a seed also makes another ground if that is random."""

    def __init__(self, **settings: Any) -> None:
        self._robots = Robots(settings)
        self.observation_space, self.action_space = self._robots.spaces()
        self._batch: TaskRobots | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Single, dict[str, Any]]:
        """Return the first observation."""
        super().reset(seed=seed)
        if self._batch is None or seed is not None:
            self._batch = self._robots.make(1, int(self.np_random.integers(2**31)))
        else:
            self._batch.restart(np.ones(1, dtype=bool))
            self._batch.observe()
        return _seen(self._batch)[0], {}

    def step(self, action: Single) -> tuple[Single, float, bool, bool, dict[str, Any]]:
        """Take an action (N,); return observation, reward and whether the robot fell."""
        if self._batch is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        earned, fell = self._batch.step(np.asarray(action, dtype=np.float64)[None])
        self._batch.observe()
        return _seen(self._batch)[0], float(earned[0]), bool(fell[0]), False, {}


class ManyRobots(VectorEnv[Single, Single, Any]):
    """`num_envs` robots of a task on one ground. A robot that fell or reached the time limit is replaced in the next
    step, which ignores its action and has reward 0. One seed is for all of them.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}

    def __init__(self, num_envs: int = 1, max_episode_steps: int = EPISODE, **settings: Any) -> None:
        self._robots = Robots(settings)
        self.num_envs, self._longest = num_envs, max_episode_steps
        self.single_observation_space, self.single_action_space = self._robots.spaces()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._batch: TaskRobots | None = None
        self._age = np.zeros(num_envs, dtype=np.int64)  # control periods
        self._over = np.zeros(num_envs, dtype=bool)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Single, dict[str, Any]]:
        """Return the first observations (num_envs, n)."""
        super().reset(seed=seed)
        if self._batch is None or seed is not None:
            self._batch = self._robots.make(self.num_envs, int(self.np_random.integers(2**31)))
        else:
            self._batch.restart(np.ones(self.num_envs, dtype=bool))
            self._batch.observe()
        self._age[:], self._over[:] = 0, False
        return _seen(self._batch), {}

    def step(self, actions: Single) -> tuple[Single, Array, Mask, Mask, dict[str, Any]]:
        """Take actions (num_envs, N); return observations, rewards, which robots fell, which are over time."""
        if self._batch is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        earned, fell = self._batch.step(np.asarray(actions, dtype=np.float64), self._over)
        self._batch.restart(self._over)
        self._batch.observe()
        self._age = np.where(self._over, 0, self._age + 1)
        old = self._age >= self._longest
        self._over = fell | old
        return _seen(self._batch), earned, fell, old, {}


def _seen(robots: TaskRobots) -> Single:
    return np.clip(robots.observation, -LARGEST, LARGEST)
