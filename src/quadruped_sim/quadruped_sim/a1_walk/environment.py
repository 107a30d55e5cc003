"""One A1 on the A1-Walk task as a Gymnasium environment."""

from __future__ import annotations

import gymnasium
import numpy as np

from quadruped_sim.a1_walk.walk import CLIP, OBSERVATION, A1WalkBatch
from quadruped_sim.environments.walking import OneRobot


class A1Walk(OneRobot):
    """An episode ends when the robot falls; Gymnasium's TimeLimit cuts it off after 20 s. Observation (48,). Every
    reset brings another robot; a reset with a seed also another track.
    """

    observation_space = gymnasium.spaces.Box(-CLIP, CLIP, OBSERVATION.shape, np.float32)
    action_space = gymnasium.spaces.Box(-CLIP, CLIP, (12,), np.float32)

    def __init__(self) -> None:
        super().__init__(lambda seed: A1WalkBatch(1, seed))
