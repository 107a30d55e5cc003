"""The two robots, a policy that only stands, and a teacher."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_robots import BIPED, TAILED, plain_scales, small_model

from fcnet_core.learning.config import example_config
from fcnet_core.model_file import PolicyModel, card_for_robot, save_model
from fcnet_core.policies.export import exported_step
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.robot import Robot, load_robot


@pytest.fixture(params=["aliengo", "a1"])
def robot(request: pytest.FixtureRequest) -> Robot:
    return load_robot(request.param)


@pytest.fixture(scope="session")
def aliengo() -> Robot:
    return load_robot("aliengo")


@pytest.fixture(scope="session")
def biped() -> Robot:
    """Two legs, 8 joints, by a URDF."""
    return load_robot(BIPED)


@pytest.fixture(scope="session")
def tailed() -> Robot:
    """Four legs and a tail, 13 joints."""
    return load_robot(TAILED)


@pytest.fixture(scope="session")
def standing_policy(aliengo: Robot) -> PolicyModel:
    """A policy whose output is the stand pose, whatever it sees."""
    return small_model(aliengo, spread=0.0)


@pytest.fixture
def policy(standing_policy: PolicyModel, tmp_path: Path) -> Path:
    """The file of that policy."""
    save_model(standing_policy, tmp_path / "policy.safetensors")
    return tmp_path / "policy.safetensors"


@pytest.fixture(scope="session")
def teacher(aliengo: Robot) -> PolicyModel:
    """A teacher with random weights."""
    config, rng = example_config(MLPConfig, observation=97, window=1, hidden=(16,)), np.random.default_rng(0)
    mean = rng.normal(0, 0.2, config.observation).astype(np.float32)
    weights = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in config.weight_shapes().items()}
    scales = plain_scales(config.observation, aliengo.stand_pose, 0.1) | {"observation_mean": mean}
    return PolicyModel(card_for_robot(aliengo, config), weights, scales, exported_step(config))


@pytest.fixture(scope="session")
def still_samples() -> Callable[..., dict[str, np.ndarray]]:
    """Makes what a simulator of four-legged robots records: of robots that stand still, except for `changes`."""

    def make(*sizes: int, **changes: Any) -> dict[str, np.ndarray]:
        vectors = ("foot_position", "foot_velocity", "foot_spin")
        shapes = {"foot_force": (4,), **dict.fromkeys(vectors, (4, 3)), "torque": (12,), "joint_rate": (12,)}
        samples = {name: np.zeros((*sizes, *shape)) for name, shape in shapes.items()}
        for name, value in {"foot_force": 50.0, **changes}.items():
            samples[name][:] = value
        return samples

    return make
