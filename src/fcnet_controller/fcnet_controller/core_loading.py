"""Makes a ready controller core from its parameters: loads, checks and warms up everything that may fail or be slow."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import numpy as np

import fcnet_core
from fcnet_controller.control_core import ControlCore
from fcnet_controller.controller_parameters import ControllerParameters
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.policy import Policy
from fcnet_core.robot import load_robot
from fcnet_core.runtime import load_policy

MODEL_FOLDER = Path(fcnet_core.__file__).parent / "models"
WARM_UP_STEPS = 20
Core = TypeVar("Core", bound=ControlCore)


def load_core(parameters: ControllerParameters, kind: type[Core]) -> Core:
    """A core of this kind for these parameters, its policy compiled and cold.

    Raises ValueError (or a kind of it) with one sentence when robot file, model and parameters do not fit together.
    """
    robot = load_robot(parameters.robot)
    model = load_model(policy_path(robot.name, parameters.policy))
    check_robot(model, robot)
    policy = load_policy(model, parameters.runtime)
    core = kind(robot, model, policy, parameters.settings)
    core.commands.set_style(parameters.stance_width, parameters.foot_clearance, parameters.stride_frequency)
    _warm_up(policy, model.card.shape.observation)
    return core


def policy_path(robot: str, policy: str) -> Path:
    """The model file called `policy`; empty for the one that comes with the suite for the robot of that name."""
    return Path(policy) if policy else MODEL_FOLDER / f"{robot}.safetensors"


def _warm_up(policy: Policy, observations: int) -> None:
    """Let the first steps, which compile and fill caches, happen before the robot depends on them."""
    for _ in range(WARM_UP_STEPS):
        policy.step(np.zeros(observations, dtype=np.float32))
    policy.reset()
