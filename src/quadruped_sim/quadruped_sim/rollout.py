"""Simulation, commands and expert advancing together: what collection and evaluation share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.command import CommandShaper
from fcnet_core.observation import assemble_observation
from fcnet_core.robot import Robot
from quadruped_sim.expert.trot import TrotExpert
from quadruped_sim.randomization import Randomization
from quadruped_sim.setpoints import SetpointRanges, SetpointSource
from quadruped_sim.simulation import CONTROL_PERIOD, BodyState, Simulation
from quadruped_sim.terrain import Terrain

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Situation:
    """What is known at the start of a control period: true state, who has fallen (B,), and, for those who have not,
    the noise-free observation (B, 70).
    """

    state: BodyState
    fallen: Mask
    observation: npt.NDArray[np.float32]


class Rollout:
    """`batch` robots on a terrain, following setpoints; the caller decides which targets are sent."""

    def __init__(
        self,
        robot: Robot,
        batch: int,
        terrain: Terrain,
        setpoints: SetpointRanges,
        randomization: Randomization,
        seed: int,
    ) -> None:
        self.rng = np.random.default_rng([seed, 1])
        self.simulation = Simulation(robot, batch, terrain, seed, randomization)
        self.shaper = CommandShaper(robot.commands, robot.gait, CONTROL_PERIOD, batch)
        self.expert = TrotExpert(robot, batch)
        self._source = SetpointSource(setpoints, batch, CONTROL_PERIOD, self.rng)
        self._last_action: Array = self.simulation.state().joint_position

    def observe(self) -> Situation:
        """Take the commands' next step and look at the robots."""
        state = self.simulation.state()
        fallen = self.simulation.fallen(state)
        command = self.shaper.step(self._source.step())
        observation = assemble_observation(
            state.orientation,
            state.angular_velocity,
            state.joint_position,
            state.joint_velocity,
            self._last_action,
            command,
        )
        return Situation(state, fallen, observation)

    def advise(self, seen: Situation) -> Array:
        """The expert's position targets (B, 12) [rad]; it must be asked in every control period or never."""
        return self.expert.act(seen.state, self.shaper)

    def send(self, targets: Array) -> None:
        """Send position targets (B, 12) [rad], clipped to the joint limits, and let one control period pass."""
        self._last_action = np.clip(targets, self.simulation.robot.lower, self.simulation.robot.upper)
        self.simulation.step(self._last_action)

    def restart(self, mask: Mask) -> None:
        """Put the robots in `mask` (B,) back on their feet with everything forgotten."""
        self.simulation.reset(mask)
        self.shaper.reset(mask)
        self.expert.reset(mask)
        self._last_action = np.where(mask[:, None], self.simulation.state().joint_position, self._last_action)
