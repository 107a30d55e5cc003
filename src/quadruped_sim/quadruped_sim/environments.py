"""The suite's environments for Gymnasium, which importing this module registers: the robots of a task, one or many.

import gymnasium, quadruped_sim.environments
env = gymnasium.make("fcnet/Aliengo-v0", terrain="rough")         # see ManyRobots
envs = gymnasium.make_vec("fcnet/A1-v0", num_envs=32)
env = gymnasium.make("fcnet/Task-v0", task="my_task.yaml")

Observations and actions are those of the task's interface. In fcnet/Aliengo-v0 and fcnet/A1-v0 these are a policy's on
the robot, so that a policy of the suite walks here as it is, and what learns here can walk there. Observation (n,):
fcnet_core.observation.velocity_interface, as noisy sensors measure it. Action (N,): joint position targets [rad] in the
robot's order for one control period, limited as by the controller. An episode ends when the robot falls. With
render_mode="rgb_array", render() returns a picture of the robot.
"""

import sys
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from msgspec import to_builtins

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.errors import SimulationError
from fcnet_core.files import converted
from fcnet_core.robot import load_robot
from quadruped_sim.physics.body import RATE
from quadruped_sim.physics.randomization import Range
from quadruped_sim.physics.terrain import named_terrain
from quadruped_sim.render.renderer import CAMERAS, Drawing, Picture
from quadruped_sim.tasks.robots import TaskRobots
from quadruped_sim.tasks.task import Task, load_task

RENDER_MODE, PICTURE_SIZE = "rgb_array", (640, 480)  # width, height [pixels]
EPISODE = 1000  # control periods: 20 s at 50 Hz
LARGEST = 100.0  # of observations and actions without limits of their own


class ManyRobots(VectorEnv[Single, Single, Any]):
    """`num_envs` robots of a task on one ground. A robot that fell or reached the time limit is replaced in the next
    step, which ignores its action and has reward 0. One seed is for all of them; a reset with a seed also makes another
    ground if that is random.

    What is not given is the task's. task: a name in config/tasks, or the path of a task file. robot: a name, or the
    path of a robot file. terrain: a name of `fcnet list terrains`, or the kind and the facts of one, as in
    config/collect. commands: by setpoint field the range, or the value, from which a command is drawn that holds for
    1.5 to 5 s; other fields are zero. randomization: the fields that differ, see randomization.Randomization. rate
    [Hz]: of observations and actions, unless the task has an interface. pays: rewards or score of the task.
    render_mode: None, or rgb_array. Raises FcnetError for an invalid value.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": [RENDER_MODE], "render_fps": round(RATE)}

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int = EPISODE,
        *,
        task: str = "velocity",
        robot: str | None = None,
        terrain: str | dict[str, Any] | None = None,
        commands: dict[str, Range] | None = None,
        randomization: dict[str, Any] | None = None,
        rate: float | None = None,
        pays: Literal["rewards", "score"] = "rewards",
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, RENDER_MODE):
            raise SimulationError(f"there is no render_mode {render_mode!r}; choose {RENDER_MODE}, or leave it out")
        if num_envs < 1:
            raise SimulationError(f"num_envs is {num_envs}; choose 1 or more")
        facts, self._pays = to_builtins(load_task(task)), pays
        self._terrain = terrain if isinstance(terrain, str) else None
        given = {
            "robot": robot,
            "rate": rate,
            "terrains": None if terrain is self._terrain else [terrain],
            "commands": None if commands is None else {"always": commands},
            "randomization": facts["randomization"] | (randomization or {}),
        }
        self._task = converted(facts | {name: value for name, value in given.items() if value is not None}, Task)
        if self._terrain is not None:
            named_terrain(self._terrain)
        driven = load_robot(self._task.robot)
        interface, limits = self._task.policy_interface(driven), [driven.lower, driven.upper]
        if np.isfinite(interface.action.clip):
            limits = [np.full(interface.values, side * interface.action.clip) for side in (-1.0, 1.0)]
        self.metadata = {**self.metadata, "render_fps": round(interface.rate)}
        (shape,) = interface.shapes.values()
        self.single_observation_space = Box(-LARGEST, LARGEST, shape, np.float32)
        self.single_action_space = Box(limits[0].astype(np.float32), limits[1].astype(np.float32))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.num_envs, self._longest, self.render_mode = num_envs, max_episode_steps, render_mode
        self._drawing: Drawing | None = None
        self._robots: TaskRobots | None = None
        self._age = np.zeros(num_envs, dtype=np.int64)  # control periods
        self._over = np.zeros(num_envs, dtype=bool)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Single, dict[str, Any]]:
        """Return the first observations (num_envs, n)."""
        if options:
            raise SimulationError(f"reset takes no options, but got {', '.join(options)}; give settings to make()")
        super().reset(seed=seed)
        self._age[:], self._over[:] = 0, False
        if self._robots is None or seed is not None:
            self.close_extras()
            chosen = int(self.np_random.integers(2**31))
            ground = None if self._terrain is None else named_terrain(self._terrain, seed=chosen)
            self._robots = TaskRobots(self._task, self.num_envs, chosen, ground, pays=self._pays)
        else:
            self._robots.restart(~self._over)
            self._robots.observe()
        return np.clip(self._robots.observation, -LARGEST, LARGEST), {}

    def step(self, actions: Single) -> tuple[Single, Array, Mask, Mask, dict[str, Any]]:
        """Take actions (num_envs, N); return observations, rewards, which robots fell, which are over time."""
        if self._robots is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        earned, fell = self._robots.step(np.asarray(actions, dtype=np.float64), self._over)
        self._robots.restart(self._over)
        seen = np.clip(self._robots.observe(), -LARGEST, LARGEST)
        self._age = np.where(self._over, 0, self._age + 1)
        old = self._age >= self._longest
        self._over = fell | old
        return seen, earned, fell, old, {}

    def render(self) -> tuple[Picture, ...] | None:
        """Return a picture (height, width, 3) of each robot; without render_mode None, and warn."""
        if self.render_mode is None:
            gymnasium.logger.warn(f'render() returns nothing: make the environment with render_mode="{RENDER_MODE}"')
            return None
        if self._robots is None:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        simulation = self._robots.simulation
        if self._drawing is None:
            self._drawing = Drawing(simulation.robot, simulation.terrain, CAMERAS["corner"], *PICTURE_SIZE)
        state, draw = simulation.state(), self._drawing.draw
        trunks = np.concatenate([state.position, state.orientation[:, [3, 0, 1, 2]]], axis=1)
        return tuple(draw(one, joints, one[:3], 0.0) for one, joints in zip(trunks, state.joint_position, strict=True))

    def close_extras(self, **kwargs: Any) -> None:
        """Free the graphics memory."""
        if self._drawing is not None:
            self._drawing.close()
            self._drawing = None


class OneRobot(gymnasium.Env[Single, Single]):
    """One robot of a task, without a time limit of its own."""

    metadata = {"render_modes": [RENDER_MODE], "render_fps": round(RATE)}

    def __init__(self, **settings: Any) -> None:
        self._robots = ManyRobots(1, sys.maxsize, **settings)
        self.render_mode = self._robots.render_mode
        self.metadata = self.metadata | {"render_fps": self._robots.metadata["render_fps"]}
        self.observation_space = self._robots.single_observation_space
        self.action_space = self._robots.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Single, dict[str, Any]]:
        """Return the first observation."""
        super().reset(seed=seed)
        return self._robots.reset(seed=seed, options=options)[0][0], {}

    def step(self, action: Single) -> tuple[Single, float, bool, bool, dict[str, Any]]:
        """Take an action (N,); return observation, reward and whether the robot fell."""
        seen, earned, fell, *_ = self._robots.step(np.asarray(action)[None])
        return seen[0], float(earned[0]), bool(fell[0]), False, {}

    def render(self) -> Picture | None:
        """Return a picture (height, width, 3); without render_mode None, and warn."""
        shown = self._robots.render()
        return None if shown is None else shown[0]

    def close(self) -> None:
        """Free the graphics memory."""
        self._robots.close()


for _id, _settings in {
    "fcnet/Aliengo-v0": {"robot": "aliengo", "pays": "score"},
    "fcnet/A1-v0": {"robot": "a1", "pays": "score"},
    "fcnet/A1Walk-v0": {"task": "a1_walk"},
    "fcnet/Task-v0": {},
}.items():
    gymnasium.register(
        _id,
        entry_point=f"{__name__}:OneRobot",
        vector_entry_point=f"{__name__}:ManyRobots",
        max_episode_steps=EPISODE,
        kwargs=_settings,
    )
