"""The teacher as an expert, and what a teacher and its critic see: many terms read what only a simulator knows."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Array, Single
from fcnet_core.control.command import CommandShaper
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.errors import SimulationError
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import Known, ObservationBuilder
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.policy import load_policy
from fcnet_core.robot import Robot
from quadruped_sim.physics.simulation import BodyState, Simulation
from quadruped_sim.tasks.task import Task, load_task
from quadruped_sim.tasks.view import TrueState
from quadruped_sim.teacher.symmetry import action_mirror, mirrored, observation_mirror

ACTION_UNIT = 0.3  # [rad] of a position target from the stand pose, for one unit of a teacher's action


class Privileged:
    """Observations (B, n) of a task's teacher, or of its critic, for robots in their true state.

    A teacher lacks the ground ahead: a policy that does not see the ground could not imitate one that does.
    """

    def __init__(self, task: Task, robot: Robot, batch: int, critic: bool = False) -> None:
        self.interface = task.teacher_interface(robot, critic)
        signals, reads = task.functions("signals", batch), self.interface.reads
        self._signals = {name: signal for name, signal in signals.items() if name in reads}
        self._others = [name for name in reads if name not in signals]
        self._builder = ObservationBuilder(self.interface, robot.joint_names, batch)

    def observe(self, seen: TrueState, shaper: CommandShaper, limiter: JointLimiter) -> Single:
        """Return the observations (B, n) for the robots' commands and the targets that were sent."""
        zero = seen.simulation.drawn["joint_zero"]
        values = seen.simulation.signals(ideal=True, names=self._others, state=seen.state)
        values |= {name: signal(seen) for name, signal in self._signals.items()}
        sent = (limiter.last - zero, limiter.previous - zero)
        known = Known(shaper.setpoint, shaper.clock.phase, shaper.clock.walking, sent)
        observation = self._builder.build(values, known)
        self._builder.advance()
        return np.asarray(observation)


def teacher_config(model: PolicyModel, size: int) -> MLPConfig:
    """Return the network's sizes. Raises SimulationError if it is not a teacher that sees `size` values."""
    config = model.card.config
    if not isinstance(config, MLPConfig) or config.observation != size:
        advice = "choose a file that `fcnet teach` wrote for this task"
        raise SimulationError(f"a teacher sees {size} values, this model {config.observation}; {advice}")
    return config


class TeacherExpert:
    """Position targets for a batch of robots from a model file of `fcnet teach`, alike for robot and mirror image.

    Raises SimulationError for a model of another robot, and for one that is not a teacher.
    """

    def __init__(self, model: PolicyModel, robot: Robot, shaper: CommandShaper, limiter: JointLimiter) -> None:
        task, interface = load_task(model.card.training.get("task", "velocity")), model.card.interface
        self._privileged = Privileged(task, robot, len(limiter.last))
        self._mirrors = observation_mirror(self._privileged.interface, robot), action_mirror(robot)
        teacher_config(model, len(self._mirrors[0][0]))
        if interface.name != robot.name:
            advice = f"choose a teacher of the {robot.name}, see models/teachers"
            raise SimulationError(f"this is a teacher of the {interface.name}; {advice}")
        # Twice the robots of shaper and limiter: each and its mirror image.
        self._shaper, self._limiter, both = shaper, limiter, 2 * len(limiter.last)
        self._runner = PolicyRunner(load_policy(model, batch=both), interface, batch=both, provides=interface.reads)

    def act(self, state: BodyState, simulation: Simulation) -> Array:
        """Return position targets (B, 12) [rad], as the encoders count, for simulated robots in their true state."""
        of_observation, of_action = self._mirrors
        seen = self._privileged.observe(TrueState(simulation, state), self._shaper, self._limiter)
        as_seen, as_mirrored = np.split(self._runner.act(np.concatenate([seen, mirrored(seen, of_observation)])), 2)
        return (as_seen + mirrored(as_mirrored, of_action)) / 2 + simulation.drawn["joint_zero"]
