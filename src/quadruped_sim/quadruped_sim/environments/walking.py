"""Robots that follow changing commands, as a Gymnasium environment of one robot and as one of many.

Observations and actions are those of a policy on the robot, so that a policy of the suite walks here as it is, and what
learns here can walk there. Observation (70,): fcnet_core.observation.LAYOUT, as noisy sensors measure it. Action (12,):
joint position targets [rad] for one control period of 20 ms, limited as by the controller.
Reward: the score of the task velocity, which `fcnet evaluate` reports, times the period. An episode ends when the
robot falls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from msgspec import Struct, field

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.errors import SimulationError
from fcnet_core.files import Positive, converted
from fcnet_core.observation import velocity_interface
from fcnet_core.robot import Robot, load_robot
from quadruped_sim.environments import EPISODE
from quadruped_sim.evaluation.scenarios import WALK
from quadruped_sim.physics.randomization import TYPICAL, Randomization, Range
from quadruped_sim.physics.simulator import RATE
from quadruped_sim.physics.terrain import Terrain, named_terrain, terrain_from_facts
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.setpoints import SetpointRanges
from quadruped_sim.tasks.task import Rewards, load_task
from quadruped_sim.tasks.view import View

LARGEST = 100.0  # of what is observed, in the units of each part


class Settings(Struct, frozen=True):
    """Settings of `gymnasium.make`.

    robot: a name, or the path of a robot file. terrain: a name of `fcnet list terrains`, or the kind and the facts of
    one, as in config/collect. commands: by setpoint field the range, or the value, from which a command is drawn that
    holds for 1.5 to 5 s; other fields are zero. randomization: the fields that differ from a real robot, see
    randomization.Randomization. rate [Hz]: of observations and actions.
    """

    robot: str
    terrain: str | dict[str, Any] = "flat"
    commands: dict[str, Range] = field(default_factory=lambda: dict(WALK))
    randomization: Randomization = TYPICAL
    rate: Positive = RATE

    def __post_init__(self) -> None:
        self.ground(0)  # raises for an invalid value, and so does the next
        self.setpoints  # noqa: B018

    @property
    def setpoints(self) -> SetpointRanges:
        """The ranges of the commands."""
        return SetpointRanges(always=self.commands)

    def ground(self, seed: int) -> Terrain:
        """Return the terrain; the seed decides a random one."""
        if isinstance(self.terrain, str):
            return named_terrain(self.terrain, seed=seed)
        return terrain_from_facts(**(self.terrain | {"seed": seed}))


def checked(given: dict[str, Any]) -> Settings:
    """Return the settings. Raises FcnetError for an invalid value, and TypeError for an unknown setting, which
    stable-baselines3 expects when it asks every environment for a render_mode.
    """
    if unknown := sorted(given.keys() - set(Settings.__struct_fields__)):
        raise TypeError(f"there is no setting {unknown[0]!r}; known are {', '.join(Settings.__struct_fields__)}")
    return converted(given, Settings)


def spaces(robot: Robot) -> tuple[gymnasium.Space[Single], gymnasium.Space[Single]]:
    """Return the spaces of observations and actions of one robot."""
    observation = gymnasium.spaces.Box(-LARGEST, LARGEST, velocity_interface(robot).shapes["observation"], np.float32)
    return observation, gymnasium.spaces.Box(robot.lower.astype(np.float32), robot.upper.astype(np.float32))


class Batch(Protocol):
    """Robots (B,) with observation (B, n) that take actions (B, N) and return rewards and falls (B,)."""

    observation: Single

    def step(self, actions: Array, /) -> tuple[Array, Mask]: ...

    def restart(self, mask: Mask, /) -> None: ...


class WalkingRobots:
    """`batch` robots on one ground, each with its own draw of the randomisation. `observation` (B, n) is current."""

    def __init__(self, settings: Settings, robot: Robot, batch: int, seed: int) -> None:
        work = (settings.ground(seed), settings.setpoints, settings.randomization, seed)
        self._rewards = Rewards(load_task("velocity"), batch, "score")
        self._rollout = Rollout(robot, batch, *work, rate=settings.rate)
        self._look()

    def step(self, actions: Array, renewed: Mask | None = None) -> tuple[Array, Mask]:
        """Take actions (B, N) for one control period; robots in `renewed` (B,) are reset to new draws instead. Return
        rewards (B,) and which robots have fallen.
        """
        rollout, simulation = self._rollout, self._rollout.simulation
        renewed = np.zeros(simulation.batch, dtype=bool) if renewed is None else renewed
        if actions.shape != rollout.limiter.last.shape or not np.isfinite(actions[~renewed]).all():
            raise SimulationError(f"actions must be finite joint position targets [rad] {rollout.limiter.last.shape}")
        shaper, before = rollout.shaper, simulation.time
        period = (shaper.setpoint.copy(), shaper.clock.phase, shaper.clock.walking)
        simulation.active = ~renewed
        wanted = np.where(renewed[:, None], rollout.limiter.last, actions)
        targets = rollout.send(wanted, record=True)
        state = simulation.state()
        view = View(simulation, state, *period, wanted, targets, rollout.limiter.previous, rollout.recorded)
        earned = simulation.period * self._rewards(view)[0]
        diverged = simulation.time < before  # MuJoCo reset it
        fell = (simulation.fallen(state) | diverged) & ~renewed
        self.restart(renewed)
        return np.where(renewed, 0.0, earned), fell

    def restart(self, mask: Mask) -> None:
        """Replace the robots in `mask` (B,), and observe all."""
        if mask.any():
            self._rollout.simulation.redraw(mask)
            self._rollout.restart(mask)
        self._look()

    def _look(self) -> None:
        """Observe, with the commands' next step."""
        self.observation: Single = np.clip(self._rollout.sense(self._rollout.observe()), -LARGEST, LARGEST)


class OneRobot(gymnasium.Env[Single, Single]):
    """One robot of a batch that `make` makes from a seed. A reset replaces it; a reset with a seed also makes another
    ground if the ground is random.
    """

    def __init__(self, make: Callable[[int], Batch]) -> None:
        self._make = make
        self._batch: Batch | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Single, dict[str, Any]]:
        """Return the first observation."""
        super().reset(seed=seed)
        if self._batch is None or seed is not None:
            self._batch = self._make(int(self.np_random.integers(2**31)))
        else:
            self._batch.restart(np.ones(1, dtype=bool))
        return self._batch.observation[0], {}

    def step(self, action: Single) -> tuple[Single, float, bool, bool, dict[str, Any]]:
        """Take an action (12,); return observation, reward and whether the robot fell."""
        if self._batch is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        earned, fell = self._batch.step(np.asarray(action, dtype=np.float64)[None])
        return self._batch.observation[0], float(earned[0]), bool(fell[0]), False, {}


class Walking(OneRobot):
    """One robot that follows changing commands."""

    def __init__(self, **settings: Any) -> None:
        given = checked(settings)
        robot = load_robot(given.robot)
        self.observation_space, self.action_space = spaces(robot)
        super().__init__(lambda seed: WalkingRobots(given, robot, 1, seed))


class VectorWalking(VectorEnv[Single, Single, Any]):
    """`num_envs` robots on one ground. A robot that fell or reached the time limit is replaced in the next step, which
    ignores its action and has reward 0. One seed is for all of them.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}

    def __init__(self, num_envs: int = 1, max_episode_steps: int = EPISODE, **settings: Any) -> None:
        self._settings = checked(settings)
        self._robot = load_robot(self._settings.robot)
        self.num_envs, self._longest = num_envs, max_episode_steps
        self.single_observation_space, self.single_action_space = spaces(self._robot)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._robots: WalkingRobots | None = None
        self._age = np.zeros(num_envs, dtype=np.int64)  # control periods
        self._over = np.zeros(num_envs, dtype=bool)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Single, dict[str, Any]]:
        """Return the first observations (num_envs, 70)."""
        super().reset(seed=seed)
        if self._robots is None or seed is not None:
            new_seed = int(self.np_random.integers(2**31))
            self._robots = WalkingRobots(self._settings, self._robot, self.num_envs, new_seed)
        else:
            self._robots.restart(np.ones(self.num_envs, dtype=bool))
        self._age[:], self._over[:] = 0, False
        return self._robots.observation, {}

    def step(self, actions: Single) -> tuple[Single, Array, Mask, Mask, dict[str, Any]]:
        """Take actions (num_envs, 12); return observations, rewards, which robots fell, which are over time."""
        if self._robots is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        earned, fell = self._robots.step(np.asarray(actions, dtype=np.float64), self._over)
        self._age = np.where(self._over, 0, self._age + 1)
        old = self._age >= self._longest
        self._over = fell | old
        return self._robots.observation, earned, fell, old, {}
