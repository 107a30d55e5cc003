"""The two robots, a policy that only stands, a teacher, and the fcnet program as a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from fcnet_core.model_file import PolicyModel, card_for_robot
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.robot import Robot, load_robot
from quadruped_sim.teacher.privileged import TEACHER_SIZE

settings.register_profile("busy_machine", deadline=None, max_examples=50)
settings.load_profile("busy_machine")


@pytest.fixture(params=["aliengo", "a1"])
def robot(request: pytest.FixtureRequest) -> Robot:
    return load_robot(request.param)


@pytest.fixture(scope="session")
def aliengo() -> Robot:
    return load_robot("aliengo")


def _policy(robot: Robot, config: Any, scale: float, draw: Callable[..., Any]) -> PolicyModel:
    """A policy whose weights and mean observation `draw` makes by their shape."""
    mean = draw(config.observation).astype(np.float32)
    return PolicyModel(
        card_for_robot(robot, config),
        {name: draw(shape).astype(np.float32) for name, shape in config.weight_shapes().items()},
        {
            "observation_mean": mean,
            "observation_std": np.ones_like(mean),
            "action_mean": robot.stand_pose.astype(np.float32),
            "action_scale": np.full(12, scale, np.float32),
        },
    )


@pytest.fixture(scope="session")
def standing_policy(aliengo: Robot) -> PolicyModel:
    """A policy whose output is the stand pose, whatever it sees."""
    config = FCNetConfig(layers=1, modes=4, hidden=16, decoder_hidden=16, window=8)
    return _policy(aliengo, config, 1.0, np.zeros)


@pytest.fixture(scope="session")
def teacher(aliengo: Robot) -> PolicyModel:
    """A teacher with random weights."""
    config, rng = MLPConfig(observation=TEACHER_SIZE, window=1, hidden=(16,)), np.random.default_rng(0)
    return _policy(aliengo, config, 0.1, lambda shape: rng.normal(0, 0.2, shape))


@pytest.fixture(scope="session")
def while_running() -> Callable[[subprocess.Popen[str], Callable[[], Any]], None]:
    """Wait until a condition is true while a process runs."""

    def wait(process: subprocess.Popen[str], condition: Callable[[], Any]) -> None:
        end = time.monotonic() + 240
        while not condition():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)

    return wait


@pytest.fixture
def fcnet() -> Callable[..., subprocess.Popen[str]]:
    """Start `fcnet ARGUMENTS` as a process."""

    def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "fcnet_core.cli", *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    return start
