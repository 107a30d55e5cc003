"""What a recording tells of the robot's true state, as the expert wants to see it: the rest is put together here.

A bag has joints, attitude and turning speed. It has no height, and no velocity unless odom was recorded. Both are taken
from the legs, on the assumptions that the ground is flat and that those near the lowest stand on it without slipping.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.datasets.walking_steps import WalkingSteps
from fcnet_core.replay.recorded_run import OdometryRecord
from fcnet_core.replay.stamps import newest
from fcnet_core.robot import Robot
from fcnet_core.rotation import matrix_from_xyzw, projected_gravity
from quadruped_sim.expert.leg_kinematics import LegKinematics
from quadruped_sim.simulation import FALLEN_HEIGHT, FALLEN_UPRIGHT, BodyState

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

ON_GROUND = 0.015  # [m] a foot that is higher than the lowest by less stands on the ground
OLD = 0.1  # [s] odometry that is older tells nothing


def recorded_states(steps: WalkingSteps, odometry: OdometryRecord, robot: Robot) -> tuple[BodyState, Mask]:
    """The states (K,) of all steps, over flat ground at z = 0, and which velocities (K,) are from odometry."""
    rotation = matrix_from_xyzw(steps.orientation)
    feet, jacobian = LegKinematics(robot).feet(steps.joint_position.reshape(-1, 4, 3))
    height = (feet @ rotation.transpose(0, 2, 1))[..., 2]
    lowest = height.min(axis=1)
    contact = height <= lowest[:, None] + ON_GROUND
    velocity = _velocity_of_legs(steps, feet, jacobian, contact)
    told, known = _velocity_of_odometry(steps, odometry)
    velocity = np.where(known[:, None], told, velocity)
    position = np.zeros((len(steps), 3))
    position[:, 2] = robot.geometry.foot_radius - lowest
    state = BodyState(
        position=position,
        orientation=steps.orientation,
        linear_velocity=(rotation @ velocity[..., None])[..., 0],
        angular_velocity=steps.angular_velocity,
        joint_position=steps.joint_position,
        joint_velocity=steps.joint_velocity,
        contact=contact,
    )
    return state, known


def beyond_the_expert(state: BodyState, robot: Robot) -> dict[str, Mask]:
    """States (K,) in which the expert has no advice, by reason: those in which simulation counts a robot as fallen,
    and joints where they cannot be.
    """
    upright = -projected_gravity(state.orientation)[:, 2]
    margin = robot.safety.position_margin
    joints = (state.joint_position < robot.lower - margin) | (state.joint_position > robot.upper + margin)
    tilted = upright < FALLEN_UPRIGHT
    low = ~tilted & (state.position[:, 2] < FALLEN_HEIGHT * robot.nominal_height)
    return {
        "the robot is tilted by more than 60 degrees": tilted,
        "the trunk is near the ground": low,
        "a joint is beyond its limit": ~tilted & ~low & joints.any(axis=1),
    }


def _velocity_of_legs(steps: WalkingSteps, feet: Array, jacobian: Array, contact: Mask) -> Array:
    """Velocity (K, 3) [m/s] of the trunk in its own frame, by which the feet on the ground stand still, on average."""
    swept = (jacobian @ steps.joint_velocity.reshape(-1, 4, 3)[..., None])[..., 0]
    moving = swept + np.cross(steps.angular_velocity[:, None], feet)
    weight = contact / contact.sum(axis=1, keepdims=True)
    velocity: Array = -(moving * weight[..., None]).sum(axis=1)
    return velocity


def _velocity_of_odometry(steps: WalkingSteps, odometry: OdometryRecord) -> tuple[Array, Mask]:
    """Velocity (K, 3) [m/s] in the body frame, and where (K,) it is known."""
    if not len(odometry.stamp):
        return np.zeros((len(steps), 3)), np.zeros(len(steps), dtype=np.bool_)
    row = newest(odometry.stamp, steps.state_time)
    velocity = odometry.velocity[row]
    known = (row >= 0) & (steps.state_time - odometry.stamp[row] <= OLD) & (np.abs(velocity) < 1e3).all(axis=1)
    return velocity, known
