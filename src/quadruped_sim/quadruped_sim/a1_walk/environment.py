"""One A1 on the A1-Walk task as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from fcnet_core.arrays import Single
from quadruped_sim.a1_walk.walk import CLIP, OBSERVATION, A1WalkBatch


class A1Walk(gymnasium.Env[Single, Single]):
    """An episode ends when the robot falls, and is cut off after 20 s by Gymnasium's TimeLimit. Every reset brings
    another robot; one with a seed another track as well.
    """

    observation_space = gymnasium.spaces.Box(-CLIP, CLIP, OBSERVATION.shape, np.float32)
    action_space = gymnasium.spaces.Box(-CLIP, CLIP, (12,), np.float32)

    def __init__(self) -> None:
        self._walk: A1WalkBatch | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Single, dict[str, Any]]:
        """The first observation (48,)."""
        super().reset(seed=seed)
        if self._walk is None or seed is not None:
            self._walk = A1WalkBatch(1, int(self.np_random.integers(2**31)))
        else:
            self._walk.restart(np.ones(1, dtype=bool))
        return self._walk.observation[0], {}

    def step(self, action: Single) -> tuple[Single, float, bool, bool, dict[str, Any]]:
        """Take an action (12,): observation, reward, whether the robot fell."""
        if self._walk is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        reward, fell = self._walk.step(np.asarray(action, dtype=np.float64)[None])
        return self._walk.observation[0], float(reward[0]), bool(fell[0]), False, {}
