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

    @property
    def size(self) -> int:
        """Number of entries of an observation."""
        return self.interface.shapes["observation"][0]

    def observe(self, seen: TrueState, shaper: CommandShaper, limiter: JointLimiter) -> Single:
        """Return the observations (B, n) for the robots' commands and the targets that were sent."""
        zero = seen.simulation.drawn.joint_zero
        values = seen.simulation.signals(ideal=True, names=self._others)
        values |= {name: signal(seen) for name, signal in self._signals.items()}
        sent = (limiter.last - zero, limiter.previous - zero)
        known = Known(shaper.setpoint, shaper.clock.phase, shaper.clock.walking, sent)
        observation = self._builder.build(values, known)
        self._builder.advance()
        return np.asarray(observation)
