"""The state of robots as the functions of a task see it: rewards, terminations and signals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_core.rotation import matrix_from_xyzw, roll_pitch_yaw
from quadruped_sim.physics.simulation import BodyState, Simulation
from quadruped_sim.trot_expert import PHASE_OFFSET, parameters_of

SIDE = 0.15  # [m] from the trunk's middle to the places left and right of it where the slope is measured


# Returns the array (B, size) of that name, which a function keeps from one control period to the next and changes in
# place; zero at first and after a reset. Called with name, size and optionally the type.
Memory = Callable[..., Any]


class Ground(NamedTuple):
    """height (B,) [m] of the trunk's centre over the ground below the trunk, a mean of five places; slope (B, 2) of the
    ground, rising forward and to the left.
    """

    height: Array
    slope: Array


class Feet(NamedTuple):
    """place (B, F, 3) [m] and velocity (B, F, 3) [m/s] in the world; position (B, F, 2) [m] from the trunk's centre in
    H; height (B, F) [m] of the soles over the ground.
    """

    place: Array
    velocity: Array
    position: Array
    height: Array


@dataclass(eq=False)
class TrueState:
    """The true state of robots (B,) over their true ground. Frame H is level and heads along the trunk.

    rotation (B, 3, 3) from trunk to world, heading (B, 2, 2) from world to H; attitude (B, 3) roll, pitch, yaw [rad];
    velocity (B, 3) [m/s] in H; clearance (B,) [m] of the trunk's centre over the ground at this point.
    """

    simulation: Simulation
    state: BodyState

    def __post_init__(self) -> None:
        self.robot = self.simulation.robot

    @cached_property
    def rotation(self) -> Array:
        return matrix_from_xyzw(self.state.orientation)

    @cached_property
    def attitude(self) -> Array:
        return roll_pitch_yaw(self.state.orientation)

    @cached_property
    def heading(self) -> Array:
        cosine, sine = np.cos(self.attitude[:, 2]), np.sin(self.attitude[:, 2])
        return np.array([[cosine, sine], [-sine, cosine]]).transpose(2, 0, 1)

    @cached_property
    def velocity(self) -> Array:
        ahead = (self.heading @ self.state.linear_velocity[:, :2, None])[..., 0]
        return np.concatenate([ahead, self.state.linear_velocity[:, 2:]], axis=1)

    @cached_property
    def clearance(self) -> Array:
        x, y, z = self.state.position.T
        return z - self.simulation.terrain.height(x, y)

    @cached_property
    def ground(self) -> Ground:
        """Of a robot with legs."""
        reach, position = self.robot.geometry.hip_x, self.state.position
        below = np.array([(reach, 0.0), (-reach, 0.0), (0.0, SIDE), (0.0, -SIDE), (0.0, 0.0)])
        under = position[:, None, :2] + below @ self.heading
        front, rear, left, right, middle = self.simulation.terrain.height(under[..., 0], under[..., 1]).T
        slope = np.stack([(front - rear) / (2 * reach), (left - right) / (2 * SIDE)], axis=-1)
        return Ground(position[:, 2] - (front + rear + left + right + middle) / 5, slope)

    @cached_property
    def feet(self) -> Feet:
        """Of a robot with legs."""
        state, rows, back = self.state, self.robot.leg_rows, self.rotation.transpose(0, 2, 1)
        feet, jacobian = LegKinematics(self.robot).feet(state.joint_position[:, rows])
        swinging = (jacobian @ state.joint_velocity[:, rows][..., None])[..., 0]
        turning = np.cross(state.angular_velocity[:, None], feet)
        velocity = state.linear_velocity[:, None] + (turning + swinging) @ back
        from_trunk = feet @ back
        place = state.position[:, None] + from_trunk
        ground = self.simulation.terrain.height(place[..., 0], place[..., 1])
        height = place[..., 2] - ground - self.robot.geometry.foot_radius
        return Feet(place, velocity, from_trunk[..., :2] @ self.heading.transpose(0, 2, 1), height)


@dataclass(eq=False)
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
    def lift(self) -> Array:
        """Commanded height (B, 1) [m] of a swing."""
        leg = self.robot.geometry.thigh + self.robot.geometry.calf
        return (parameters_of(self.robot).clearance * leg + self.commanded("clearance"))[:, None]

    @cached_property
    def swing(self) -> Array:
        """Progress (B, F) of each foot in its swing by the gait clock, above 0 to 1; -1 in stance."""
        duty = parameters_of(self.robot).duty_of(self.setpoint, self.robot.gait.speed_knee)[:, None]
        swing = ((self.phase[:, None] + PHASE_OFFSET) % 1.0 - duty) / (1 - duty)
        return np.where(self.walking[:, None] & (swing > 0.0), swing, -1.0)
