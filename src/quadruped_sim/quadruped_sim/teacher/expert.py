"""The teacher as an expert: position targets from the current true state only."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.control.command import CommandShaper
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.errors import SimulationError
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.policy import load_policy
from fcnet_core.robot import Robot
from quadruped_sim.physics.simulation import BodyState, Simulation
from quadruped_sim.tasks.view import TrueState
from quadruped_sim.teacher.privileged import TEACHER_SIZE, teacher_observation
from quadruped_sim.teacher.symmetry import ACTION, OBSERVATION, mirrored


def teacher_config(model: PolicyModel) -> MLPConfig:
    """Return the network's sizes. Raises SimulationError if the model is not a teacher."""
    config = model.card.config
    if not isinstance(config, MLPConfig) or config.observation != TEACHER_SIZE:
        advice = "choose a file that `fcnet teach` wrote"
        raise SimulationError(f"a teacher sees {TEACHER_SIZE} values, this model {config.observation}; {advice}")
    return config


class TeacherExpert:
    """Position targets for a batch of robots from a model file of `fcnet teach`, alike for robot and mirror image.

    Raises SimulationError for a model of another robot, and for one that is not a teacher.
    """

    def __init__(self, model: PolicyModel, robot: Robot, shaper: CommandShaper, limiter: JointLimiter) -> None:
        teacher_config(model)
        if model.card.interface.name != robot.name:
            advice = f"choose a teacher of the {robot.name}, see models/teachers"
            raise SimulationError(f"this is a teacher of the {model.card.interface.name}; {advice}")
        # Twice the robots of shaper and limiter: each and its mirror image.
        self._runner = PolicyRunner(load_policy(model, batch=2 * len(limiter.last)), shaper, limiter)

    def act(self, state: BodyState, simulation: Simulation) -> Array:
        """Return position targets (B, 12) [rad], as the encoders count, for simulated robots in their true state."""
        known = TrueState(simulation, state)
        seen = teacher_observation(known, self._runner.shaper, self._runner.limiter)
        as_seen, as_mirrored = np.split(self._runner.act(np.concatenate([seen, mirrored(seen, OBSERVATION)])), 2)
        return (as_seen + mirrored(as_mirrored, ACTION)) / 2 + simulation.drawn.joint_zero
