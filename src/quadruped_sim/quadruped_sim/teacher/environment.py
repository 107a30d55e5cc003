"""Robots in worker processes as one vectorised environment of stable-baselines3.

An observation is the critic's; the teacher acts on its first TEACHER_SIZE entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import reduce
from operator import add
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env.base_vec_env import VecEnv

from fcnet_core.arrays import Array, Mask, Single
from quadruped_sim.collection import CollectionPlan
from quadruped_sim.teacher.groups import Progress, begin, call
from quadruped_sim.teacher.privileged import CRITIC_SIZE
from quadruped_sim.teacher.settings import TeacherConfig

LARGEST_ACTION = 6.0


class TeacherEnvironment(VecEnv):
    """The robots of several worker processes, as many and in as many groups in each as the settings say."""

    def __init__(self, plan: CollectionPlan, config: TeacherConfig, workers: Sequence[Executor], seed: int) -> None:
        self._workers = workers
        for number, worker in enumerate(workers):
            sizes = (config.robots, config.groups, config.renewal)
            worker.submit(begin, plan, *sizes, seed * len(workers) + number).result()
        observation = gymnasium.spaces.Box(-np.inf, np.inf, (CRITIC_SIZE,), np.float32)
        action = gymnasium.spaces.Box(-LARGEST_ACTION, LARGEST_ACTION, (12,), np.float32)
        super().__init__(config.robots // config.groups * config.groups * len(workers), observation, action)
        self._actions: Array = np.zeros((self.num_envs, 12))

    def reset(self) -> Single:
        """The observations now; robots begin anew by themselves."""
        return np.concatenate(self._ask("observe"))

    def advise(self) -> Array:
        """The trot's actions (num_envs, 12); ask in every period or never."""
        return np.concatenate(self._ask("advise"))

    def progress(self) -> Progress:
        """What has happened since the last question."""
        return reduce(add, self._ask("progress"))

    def step_async(self, actions: Array) -> None:
        """Take actions (num_envs, 12)."""
        self._actions = actions

    def step_wait(self) -> tuple[Single, Single, Mask, list[dict[str, Any]]]:
        """Observations, rewards, which robots begin anew, and for these what they saw last."""
        results = self._ask("step", np.split(self._actions, len(self._workers)))
        observation, reward, fell, old, last = (np.concatenate(arrays) for arrays in zip(*results, strict=True))
        facts: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(fell | old):
            facts[index] = {"terminal_observation": last[index], "TimeLimit.truncated": bool(old[index])}
        return observation, reward.astype(np.float32), fell | old, facts

    def close(self) -> None:
        """The workers end with their pools."""

    def _ask(self, method: str, parts: Sequence[Any] | None = None) -> list[Any]:
        arguments = [()] * len(self._workers) if parts is None else [(part,) for part in parts]
        futures = [worker.submit(call, method, *given) for worker, given in zip(self._workers, arguments, strict=True)]
        return [future.result() for future in futures]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Only what stable-baselines3 asks for."""
        return [{"render_mode": None}.get(attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Robots have no attributes that could be set."""
        raise NotImplementedError

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Robots have no methods that could be called."""
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """None is."""
        return [False] * self.num_envs
