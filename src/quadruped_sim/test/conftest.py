"""The two robots, a policy that only stands, a teacher, and the fcnet program as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import fcnet_core
import quadruped_sim
from fcnet_core.model_file import PolicyModel, card_for_robot
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.robot import Robot, load_robot
from quadruped_sim.teacher.privileged import TEACHER_SIZE

settings.register_profile("busy_machine", deadline=None, max_examples=50)
settings.load_profile("busy_machine")

PROGRAM = "import sys; from fcnet_core.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(params=["aliengo", "a1"])
def robot(request: pytest.FixtureRequest) -> Robot:
    return load_robot(request.param)


@pytest.fixture(scope="session")
def aliengo() -> Robot:
    return load_robot("aliengo")


@pytest.fixture(scope="session")
def standing_policy(aliengo: Robot) -> PolicyModel:
    """A policy whose output is the stand pose, whatever it sees."""
    shape = FCNetConfig(layers=1, modes=4, hidden=16, decoder_hidden=16, window=8)
    return PolicyModel(
        card=card_for_robot(aliengo, shape, observation_clip=5.0),
        weights={name: np.zeros(size, dtype=np.float32) for name, size in shape.weight_shapes().items()},
        scales={
            "observation_mean": np.zeros(70, dtype=np.float32),
            "observation_std": np.ones(70, dtype=np.float32),
            "action_mean": aliengo.stand_pose.astype(np.float32),
            "action_scale": np.ones(12, dtype=np.float32),
        },
    )


@pytest.fixture(scope="session")
def teacher(aliengo: Robot) -> PolicyModel:
    """A teacher with random weights."""
    config, rng = MLPConfig(observation=TEACHER_SIZE, window=1, hidden=(16,)), np.random.default_rng(0)
    return PolicyModel(
        card_for_robot(aliengo, config),
        {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in config.weight_shapes().items()},
        {
            "observation_mean": rng.normal(0, 0.1, TEACHER_SIZE).astype(np.float32),
            "observation_std": np.ones(TEACHER_SIZE, np.float32),
            "action_mean": aliengo.stand_pose.astype(np.float32),
            "action_scale": np.full(12, 0.1, np.float32),
        },
    )


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
    """Starts `fcnet ARGUMENTS` as a process."""
    places = [str(Path(package.__file__ or "").parents[1]) for package in (fcnet_core, quadruped_sim)]
    path = os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")])

    def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start
