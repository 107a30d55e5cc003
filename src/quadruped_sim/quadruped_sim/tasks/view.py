"""The state of robots as the functions of a task see it: rewards, terminations and signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.robot import SETPOINT_FIELDS, Robot
from fcnet_core.rotation import matrix_from_xyzw, roll_pitch_yaw
from quadruped_sim.physics.simulation import BodyState, Simulation
from quadruped_sim.trot_expert import PHASE_OFFSET, TrotParameters, parameters_of

SIDE = 0.15  # [m] from the trunk's middle to the places left and right of it where the slope is measured


class Memory:
    """Arrays that a function keeps from one control period to the next, by name; zero at first and after a reset."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._arrays: dict[str, npt.NDArray[np.generic]] = {}

    def __call__(self, name: str, size: int, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.generic]:
        """Return the array (B, size) of that name, which the function changes in place."""
        return self._arrays.setdefault(name, np.zeros((self._batch, size), dtype))

    def reset(self, mask: Mask) -> None:
        """Clear the rows of the robots in `mask` (B,)."""
        for array in self._arrays.values():
            array[mask] = 0


@dataclass(frozen=True)
class TrueState:
    """The true state of the robots (B,) of a simulation, over its true ground. Frame H is level and heads along the
    trunk. Values of feet need a robot with legs.
    """

    simulation: Simulation
    state: BodyState

    @property
    def robot(self) -> Robot:
        """The robots' file."""
        return self.simulation.robot

    @cached_property
    def rotation(self) -> Array:
        """Rotation matrices (B, 3, 3) from the trunk to the world."""
        return matrix_from_xyzw(self.state.orientation)

    @cached_property
    def attitude(self) -> Array:
        """Roll, pitch and yaw (B, 3) [rad]."""
        return roll_pitch_yaw(self.state.orientation)

    @cached_property
    def heading(self) -> Array:
        """Rotation matrices (B, 2, 2) from the world to H."""
        cosine, sine = np.cos(self.attitude[:, 2]), np.sin(self.attitude[:, 2])
        return np.array([[cosine, sine], [-sine, cosine]]).transpose(2, 0, 1)

    @cached_property
    def velocity(self) -> Array:
        """Velocity (B, 3) [m/s] in H."""
        velocity = self.state.linear_velocity
        return np.concatenate([(self.heading @ velocity[:, :2, None])[..., 0], velocity[:, 2:]], axis=1)

    @cached_property
    def body_velocity(self) -> Array:
        """Velocity (B, 3) [m/s] in the trunk's frame."""
        return (self.rotation.transpose(0, 2, 1) @ self.state.linear_velocity[..., None])[..., 0]

    @cached_property
    def _ground(self) -> tuple[Array, Array]:
        """Height [m] (B,) of the ground below the trunk, mean of five places, and its slope (B, 2)."""
        reach = self.robot.geometry.hip_x
        below = np.array([(reach, 0.0), (-reach, 0.0), (0.0, SIDE), (0.0, -SIDE), (0.0, 0.0)])
        under = self.state.position[:, None, :2] + below @ self.heading
        front, rear, left, right, middle = self.simulation.terrain.height(under[..., 0], under[..., 1]).T
        slope = np.stack([(front - rear) / (2 * reach), (left - right) / (2 * SIDE)], axis=-1)
        return (front + rear + left + right + middle) / 5, slope

    @property
    def height(self) -> Array:
        """Height (B,) [m] of the trunk's centre over the ground below the trunk."""
        return self.state.position[:, 2] - self._ground[0]

    @property
    def slope(self) -> Array:
        """Slope (B, 2) of the ground, rising forward and to the left."""
        return self._ground[1]

    @cached_property
    def clearance(self) -> Array:
        """Height (B,) [m] of the trunk's centre over the ground below this point."""
        x, y, z = self.state.position.T
        return z - self.simulation.terrain.height(x, y)

    @cached_property
    def _feet(self) -> tuple[Array, Array]:
        """Positions (B, F, 3) [m] of the feet from the trunk's centre, and velocities (B, F, 3) [m/s], in the world."""
        state, rows, back = self.state, self.robot.leg_rows, self.rotation.transpose(0, 2, 1)
        feet, jacobian = LegKinematics(self.robot).feet(state.joint_position[:, rows])
        swinging = (jacobian @ state.joint_velocity[:, rows][..., None])[..., 0]
        turning = np.cross(state.angular_velocity[:, None], feet)
        return feet @ back, state.linear_velocity[:, None] + (turning + swinging) @ back

    @property
    def foot_velocity(self) -> Array:
        """Velocities (B, F, 3) [m/s] of the feet in the world."""
        return self._feet[1]

    @cached_property
    def foot_place(self) -> Array:
        """Positions (B, F, 3) [m] of the feet in the world."""
        return self.state.position[:, None] + self._feet[0]

    @cached_property
    def foot_position(self) -> Array:
        """Positions (B, F, 2) [m] of the feet in H from the trunk's centre."""
        return self._feet[0][..., :2] @ self.heading.transpose(0, 2, 1)

    @cached_property
    def foot_height(self) -> Array:
        """Heights (B, F) [m] of the soles over the ground below them."""
        x, y, z = np.moveaxis(self.foot_place, -1, 0)
        return z - self.simulation.terrain.height(x, y) - self.robot.geometry.foot_radius


@dataclass(frozen=True)
class View(TrueState):
    """Robots (B,) with N joints and F feet at the end of a control period.

    setpoint (B, 9), phase, walking (B,): commands and gait clock of the period as the policy saw them. requested, sent,
    before (B, N) [rad]: targets asked for, sent, and sent a period earlier. records: torque [Nm],
    joint_rate [rad/s] (T, B, N) and foot_force (T, B, F) [N] after each of the T physics steps of the period.
    """

    setpoint: Array
    phase: Array
    walking: Mask
    requested: Array
    sent: Array
    before: Array
    records: Mapping[str, Array]

    def commanded(self, name: str) -> Array:
        """Return the commands (B,) of a setpoint field."""
        return self.setpoint[:, SETPOINT_FIELDS.index(name)]

    @cached_property
    def stride(self) -> TrotParameters:
        """The trot's constants for the robot."""
        return parameters_of(self.robot)

    @cached_property
    def lift(self) -> Array:
        """Commanded height (B, 1) [m] of a swing."""
        leg = self.robot.geometry.thigh + self.robot.geometry.calf
        return (self.stride.clearance * leg + self.commanded("clearance"))[:, None]

    @cached_property
    def swing(self) -> Array:
        """Progress (B, F) of each foot in its swing by the gait clock, above 0 to 1; -1 in stance."""
        duty = self.stride.duty_of(self.setpoint, self.robot.gait.speed_knee)[:, None]
        swing = ((self.phase[:, None] + PHASE_OFFSET) % 1.0 - duty) / (1 - duty)
        return np.where(self.walking[:, None] & (swing > 0.0), swing, -1.0)
