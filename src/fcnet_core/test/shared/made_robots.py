"""Robots that are made up for tests: other joints, another number of them, no legs, no lying pose."""

from pathlib import Path

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.model_file import PolicyModel, card_for_robot
from fcnet_core.observation import velocity_interface
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.robot import Robot, load_robot

FOLDER = Path(__file__).parent / "robots"
BIPED, TAILED = FOLDER / "biped.yaml", FOLDER / "tailed.yaml"


def every_robot() -> list[Robot]:
    """The robots of the suite and these."""
    return [load_robot(name) for name in ("aliengo", "a1", BIPED, TAILED)]


def plain_scales(observations: int, action_mean: Array, action_scale: float = 1.0) -> dict[str, Array]:
    """Scales of a policy that sees observations as they are; its outputs count from a mean (N,) in this unit."""
    return {
        "observation_mean": np.zeros(observations, np.float32),
        "observation_std": np.ones(observations, np.float32),
        "action_mean": action_mean.astype(np.float32),
        "action_scale": np.full(len(action_mean), action_scale, np.float32),
    }


def small_model(robot: Robot, rate: float = 50.0, spread: float = 0.3) -> PolicyModel:
    """A small FCNet with random weights of this standard deviation, which keeps the joints near the stand pose."""
    rng = np.random.default_rng(0)
    (inputs,) = velocity_interface(robot).shapes["observation"]
    shape = {"layers": 2, "modes": 3, "hidden": 16, "decoder_hidden": 8, "window": 16}
    config = FCNetConfig(observation=inputs, action=len(robot.joint_names), **shape)
    weights = {name: rng.normal(0, spread, size).astype(np.float32) for name, size in config.weight_shapes().items()}
    scales = plain_scales(inputs, robot.stand_pose, 0.05)
    return PolicyModel(card_for_robot(robot, config, control_rate=rate), weights, scales)
