"""Learning with stable-baselines3: robots in worker processes as one vectorised environment, and checkpoints."""

import io
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env.base_vec_env import VecEnv

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.errors import SimulationError
from fcnet_core.files import write_whole
from quadruped_sim.worker_pool import call, keep

LearnerT = TypeVar("LearnerT", bound=PPO)


class WorkerEnvironment(VecEnv):
    """The robots of several workers, one process each. `make` makes those of one worker from a seed, `robots` (B,)
    which are reset automatically: observe() returns the observations (B, n) now; step(actions (B, N)) returns
    observations, rewards, which robots fell, which reached the time limit, and the last observations of robots whose
    episode is over.
    """

    def __init__(
        self,
        workers: Sequence[Executor],
        make: Callable[[int], Any],
        robots: int,
        seed: int,
        observation_size: int,
        joints: int,
        largest_action: float,
    ) -> None:
        self._workers = workers
        for number, worker in enumerate(workers):
            worker.submit(keep, partial(make, seed * len(workers) + number)).result()
        observation = gymnasium.spaces.Box(-np.inf, np.inf, (observation_size,), np.float32)
        action = gymnasium.spaces.Box(-largest_action, largest_action, (joints,), np.float32)
        super().__init__(robots * len(workers), observation, action)
        self._actions: Array = np.zeros((self.num_envs, joints))

    def reset(self) -> Single:
        """Return the observations; robots are reset automatically."""
        return np.concatenate(self.ask("observe"))

    def step_async(self, actions: Array) -> None:
        """Take actions (num_envs, N)."""
        self._actions = actions

    def step_wait(self) -> tuple[Single, Single, Mask, list[dict[str, Any]]]:
        """Return observations, rewards, which episodes are over, and the last observation of each of these."""
        results = self.ask("step", np.split(self._actions, len(self._workers)))
        observation, reward, fell, old, last = (np.concatenate(arrays) for arrays in zip(*results, strict=True))
        facts: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(fell | old):
            facts[index] = {"terminal_observation": last[index], "TimeLimit.truncated": bool(old[index])}
        return observation, reward.astype(np.float32), fell | old, facts

    def ask(self, method: str, parts: Sequence[Any] | None = None) -> list[Any]:
        """Call a method of the robots of each worker, with its part if there are parts; return the results."""
        arguments = zip(parts, strict=True) if parts else [()] * len(self._workers)
        futures = [worker.submit(call, method, *given) for worker, given in zip(self._workers, arguments, strict=True)]
        return [future.result() for future in futures]

    def close(self) -> None:  # the workers end with their pools
        pass

    # The rest of VecEnv's interface, of which stable-baselines3 uses two.
    set_attr: Any = None
    env_method: Any = None

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [{"render_mode": None}.get(attr_name)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def save_checkpoint(learner: PPO, path: Path) -> None:
    """Write the checkpoint whole or not at all."""
    content = io.BytesIO()
    learner.save(content)
    write_whole(path, content.getvalue())


def load_checkpoint(kind: type[LearnerT], path: Path, env: VecEnv, device: str, **settings: Any) -> LearnerT:
    """Load a learner with other `settings`. Raises SimulationError if the file cannot be loaded."""
    try:
        return kind.load(path, env=env, device=device, custom_objects=settings)
    except (ValueError, OSError, RuntimeError, AttributeError, ImportError) as error:
        advice = "delete it, or choose another folder"
        raise SimulationError(f"the checkpoint {path} cannot be loaded ({error}); {advice}") from error
