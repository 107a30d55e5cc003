"""A robot and a small random policy for it, which holds the legs near the stand pose."""

import numpy as np
import pytest

from fcnet_core.model_file import PolicyModel, save_model
from fcnet_core.network_shape import NetworkShape
from fcnet_core.policy_card import card_for_robot
from fcnet_core.robot import load_robot

SHAPE = NetworkShape(layers=2, modes=3, hidden=16, decoder_hidden=8, window=16)


def random_model(robot, seed=0):
    rng = np.random.default_rng(seed)
    weights = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in SHAPE.weight_shapes().items()}
    return PolicyModel(
        card=card_for_robot(robot, SHAPE),
        weights=weights,
        observation_mean=np.zeros(70, np.float32),
        observation_std=np.ones(70, np.float32),
        action_mean=robot.stand_pose.astype(np.float32),
        action_scale=np.full(12, 0.05, np.float32),
    )


@pytest.fixture(scope="session")
def robot():
    return load_robot("aliengo")


@pytest.fixture(scope="session")
def model(robot):
    return random_model(robot)


@pytest.fixture(scope="session")
def model_path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "aliengo.safetensors"
    save_model(model, path)
    return path


@pytest.fixture(scope="session")
def a1_model_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "a1.safetensors"
    save_model(random_model(load_robot("a1")), path)
    return path
