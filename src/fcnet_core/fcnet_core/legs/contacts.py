"""Foot contacts, estimated from joint states, joint torques and the IMU."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.robot import Robot
from fcnet_core.rotation import GRAVITY

LOADED = 0.05  # minimum load of a foot on the ground, as a share of the robot's weight
RESTING = 0.3  # [m/s] maximum vertical speed of a foot on the ground relative to the trunk


class ContactEstimator:
    """Estimates contacts for any number of states: a foot on the ground carries weight and rests."""

    def __init__(self, robot: Robot) -> None:
        self._legs, self._rows, self._weight = LegKinematics(robot), robot.leg_rows, GRAVITY * robot.mass

    def feet(self, joints: Array, velocity: Array, torque: Array, angular_velocity: Array, up: Array) -> Mask:
        """Return contacts (..., 4) in LEGS order.

        joints, velocity, torque (..., N) [rad, rad/s, Nm]; angular_velocity (..., 3) [rad/s] of the trunk; up: upward
        direction of the world (..., 3); both in the trunk's frame. False for an unknown torque.
        """
        angles = joints[..., self._rows]
        feet, jacobians = self._legs.feet(angles)
        forces = self._legs.ground_forces(angles, torque[..., self._rows])
        speeds = (jacobians @ velocity[..., self._rows, None])[..., 0]
        speeds += np.cross(angular_velocity[..., None, :], feet)
        with np.errstate(invalid="ignore"):
            carried = (forces * up[..., None, :]).sum(-1)
            return (carried > LOADED * self._weight) & (np.abs((speeds * up[..., None, :]).sum(-1)) < RESTING)
