"""What a teacher and its critic see: the terms of their task, of which many read what only a simulator knows."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Single
from fcnet_core.control.command import CommandShaper
from fcnet_core.control.runner import JointLimiter
from fcnet_core.observation import Known, ObservationBuilder
from fcnet_core.robot import Robot
from quadruped_sim.tasks.task import Task
from quadruped_sim.tasks.view import TrueState

DRAWN = ("friction", "payload", "com", "strength", "delay")  # of randomization.Draw


class Privileged:
    """Observations (B, n) of a task's teacher, or of its critic, for robots in their true state.

    A teacher lacks the ground ahead: a policy that does not see the ground could not imitate one that does.
    """

    def __init__(self, task: Task, robot: Robot, batch: int, critic: bool = False) -> None:
        self.interface = task.teacher_interface(robot, critic)
        self._signals = {
            name: signal for name, signal in task.functions("signals", batch).items() if name in self.interface.reads
        }
        self._builder = ObservationBuilder(self.interface, robot.joint_names, batch)

    @property
    def size(self) -> int:
        """Number of entries of an observation."""
        return self.interface.shapes["observation"][0]

    def observe(self, seen: TrueState, shaper: CommandShaper, limiter: JointLimiter) -> Single:
        """Return the observations (B, n) for the robots' commands and the targets that were sent."""
        state, drawn = seen.state, seen.simulation.drawn
        values = {
            "orientation": state.orientation,
            "angular_velocity": state.angular_velocity,
            "joint_position": state.joint_position,
            "joint_velocity": state.joint_velocity,
            "linear_velocity": seen.body_velocity,
            "foot_contact": state.contact,
            **{name: getattr(drawn, name).reshape(len(state.position), -1) for name in DRAWN},
            **{name: signal(seen) for name, signal in self._signals.items()},
        }
        sent = (limiter.last - drawn.joint_zero, limiter.previous - drawn.joint_zero)
        known = Known(shaper.setpoint, shaper.clock.phase, shaper.clock.walking, sent)
        observation = self._builder.build(values, known)
        self._builder.advance()
        return np.asarray(observation)
