"""Which feet are on the ground, estimated from what every robot measures: joints, their torques, and the IMU."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.robot import LEGS, Robot
from fcnet_core.rotation import GRAVITY

LOADED = 0.05  # of the robot's weight, which a foot on the ground carries at least ...
RESTING = 0.3  # [m/s] ... and the vertical speed that it has at most, as seen from the trunk


class ContactEstimator:
    """A foot is on the ground where it carries weight and rests; for any number of states at once."""

    def __init__(self, robot: Robot) -> None:
        self._legs, self._weight = LegKinematics(robot), GRAVITY * robot.mass

    def feet(self, joints: Array, velocity: Array, torque: Array, angular_velocity: Array, up: Array) -> Mask:
        """Contacts (..., 4) in LEGS order from joints (..., 12) [rad], their velocity [rad/s] and torque [Nm], the
        trunk's angular velocity (..., 3) [rad/s] and the world's upward direction (..., 3), both in the trunk's frame.
        False where a torque is not known.
        """
        shape = (*joints.shape[:-1], len(LEGS), -1)
        angles = joints.reshape(shape)
        feet, jacobians = self._legs.feet(angles)
        forces = self._legs.ground_forces(angles, torque.reshape(shape))
        speeds = (jacobians @ velocity.reshape(shape)[..., None])[..., 0]
        speeds += np.cross(angular_velocity[..., None, :], feet)
        with np.errstate(invalid="ignore"):
            carried = (forces * up[..., None, :]).sum(-1)
            return (carried > LOADED * self._weight) & (np.abs((speeds * up[..., None, :]).sum(-1)) < RESTING)
