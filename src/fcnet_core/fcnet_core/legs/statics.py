"""Static joint torques of a robot on its feet, from its weight and the weight of its legs."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.legs.kinematics import FRONT, LEFT, LegKinematics
from fcnet_core.robot import LEG_JOINTS, LEGS, Robot
from fcnet_core.rotation import GRAVITY


class LegStatics:
    """Static joint torques of one robot from its masses."""

    def __init__(self, robot: Robot) -> None:
        self._legs = LegKinematics(robot)
        self._foot = np.array([0.0, 0.0, -robot.geometry.foot_radius])  # from a foot's centre to the ground
        self._mass = robot.mass
        self._trunk = robot.bodies["trunk"].mass * np.array(robot.bodies["trunk"].com)
        links = [robot.bodies[name] for name in LEG_JOINTS]
        self._link_mass = np.array([link.mass for link in links])
        mirror = np.ones((len(LEGS), len(links), 3))  # the robot file has the links of the left front leg
        mirror[:, :, 1] = LEFT[:, None]
        mirror[:, 0, 0] = FRONT
        self._link_com = mirror * np.array([link.com for link in links])

    def torques(self, joints: Array, gravity: Array) -> Array:
        """Return torques (4, 3) [Nm] at joints (4, 3) [rad] with all feet on the ground and minimum friction.

        gravity (3,): unit vector of its direction in the trunk's frame.
        """
        points, axes = self._legs.points(joints), self._legs.axes(joints)
        coms = self._coms(points, joints)
        contact = points[:, 3] + self._foot
        com = (self._trunk + (self._link_mass[:, None] * coms).sum(axis=(0, 1))) / self._mass
        forces = self._contact_forces(contact - com, gravity)
        lever = points[:, :3]  # of the joints
        moment = _cross(contact[:, None] - lever, forces[:, None])
        weight = GRAVITY * self._link_mass[:, None] * gravity
        for link in range(len(LEG_JOINTS)):
            moment[:, : link + 1] += _cross(coms[:, link, None] - lever[:, : link + 1], weight[link])
        return -(axes * moment).sum(axis=-1)

    def _coms(self, points: Array, angles: Array) -> Array:
        """Return centres of mass (4 legs, 3 links, 3) [m] of hips, thighs and calves."""
        pitch = np.stack([np.zeros(len(LEGS)), angles[:, 1], angles[:, 1] + angles[:, 2]], axis=-1)
        x, y, z = np.moveaxis(self._link_com, -1, 0)
        x, z = x * np.cos(pitch) + z * np.sin(pitch), z * np.cos(pitch) - x * np.sin(pitch)
        sine, cosine = np.sin(angles[:, :1]), np.cos(angles[:, :1])
        turned = np.stack([x, y * cosine - z * sine, y * sine + z * cosine], axis=-1)
        return points[:, :3] + turned

    def _contact_forces(self, arms: Array, gravity: Array) -> Array:
        """Return the minimum ground forces (4, 3) [N], at `arms` (4, 3) [m] from the centre of mass, that carry it."""
        grasp = np.zeros((6, len(LEGS), 3))
        x, y, z = arms.T
        for axis in range(3):
            grasp[axis, :, axis] = 1.0
        grasp[3, :, 1], grasp[3, :, 2] = -z, y
        grasp[4, :, 0], grasp[4, :, 2] = z, -x
        grasp[5, :, 0], grasp[5, :, 1] = -y, x
        flat = grasp.reshape(6, -1)
        wrench = np.concatenate([-self._mass * GRAVITY * gravity, np.zeros(3)])
        return (flat.T @ np.linalg.solve(flat @ flat.T, wrench)).reshape(len(LEGS), 3)


def _cross(a: Array, b: Array) -> Array:
    """Return cross products (..., 3); for small arrays np.cross takes three times as long."""
    return a[..., [1, 2, 0]] * b[..., [2, 0, 1]] - a[..., [2, 0, 1]] * b[..., [1, 2, 0]]
