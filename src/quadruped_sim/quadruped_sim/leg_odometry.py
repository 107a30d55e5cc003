"""Position and velocity of a trunk from its legs: the feet near the lowest one stand on the ground without slipping."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.robot import Robot
from fcnet_core.rotation import matrix_from_xyzw

ON_GROUND = 0.015  # [m] a foot that is higher than the lowest by less stands on the ground


def leg_odometry(
    robot: Robot, orientation: Array, angular_velocity: Array, joint_position: Array, joint_velocity: Array
) -> tuple[Array, Mask, Array]:
    """Return, of N states: feet (N, 4, 3) [m] from the trunk's centre, along the axes of the world; which stand (N, 4);
    the velocity (N, 3) of the trunk [m/s] in its own frame by which they stand still, on average.

    Use orientation (N, 4) x, y, z, w; angular velocity (N, 3) [rad/s] in the body frame; joints (N, K).
    Raises FcnetError for a robot without legs of known lengths.
    """
    feet, jacobian = LegKinematics(robot).feet(joint_position[:, robot.leg_rows])
    placed = feet @ matrix_from_xyzw(orientation).transpose(0, 2, 1)
    contact = placed[..., 2] <= placed[..., 2].min(axis=1, keepdims=True) + ON_GROUND
    swept = (jacobian @ joint_velocity[:, robot.leg_rows][..., None])[..., 0]
    moving = swept + np.cross(angular_velocity[:, None], feet)
    velocity = -(moving * contact[..., None]).sum(axis=1) / contact.sum(axis=1, keepdims=True)
    return placed, contact, velocity
