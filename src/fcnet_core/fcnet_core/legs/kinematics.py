"""Closed-form kinematics of the four legs of any number of robots, in the trunk's frame, legs in LEGS order."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import LEGS, Robot

FRONT = np.array([1.0 if leg.startswith("F") else -1.0 for leg in LEGS])
LEFT = np.array([1.0 if leg.endswith("L") else -1.0 for leg in LEGS])
LONGEST = 0.985  # share of the stretched leg: beyond it the knee could bend the other way
SHORTEST = 0.22  # share of the stretched leg


class LegKinematics:
    """Forward and inverse kinematics of hip (abduction), thigh and calf; joints (..., 4, 3) [rad]."""

    def __init__(self, robot: Robot) -> None:
        size = robot.geometry
        self._thigh, self._calf = size.thigh, size.calf
        self._side = size.abduction * LEFT
        self.hips = np.stack([FRONT * size.hip_x, LEFT * size.hip_y, np.zeros(4)], axis=-1)
        self.neutral = self.hips + np.stack([np.zeros(4), self._side, np.zeros(4)], axis=-1)

    def points(self, joints: Array) -> Array:
        """Return hip axis, thigh axis, knee and foot centre (..., 4 legs, 4 points, 3) [m]."""
        hip, thigh, knee = joints[..., 0], joints[..., 1], joints[..., 1] + joints[..., 2]
        points = np.zeros((*joints.shape[:-1], 4, 3))
        points[..., 2, 0] = -self._thigh * np.sin(thigh)
        points[..., 3, 0] = points[..., 2, 0] - self._calf * np.sin(knee)
        down = np.zeros(points.shape[:-1])
        down[..., 2] = -self._thigh * np.cos(thigh)
        down[..., 3] = down[..., 2] - self._calf * np.cos(knee)
        side = np.stack([np.zeros(4), self._side, self._side, self._side], axis=-1)
        sine, cosine = np.sin(hip)[..., None], np.cos(hip)[..., None]
        points[..., :, 1], points[..., :, 2] = side * cosine - down * sine, side * sine + down * cosine
        return points + self.hips[:, None]

    def axes(self, joints: Array) -> Array:
        """Return unit vectors (..., 4 legs, 3 joints, 3) along the axes of hip, thigh and calf."""
        axes = np.zeros((*joints.shape, 3))
        axes[..., 0, 0] = 1.0
        axes[..., 1:, 1] = np.cos(joints[..., 0])[..., None]
        axes[..., 1:, 2] = np.sin(joints[..., 0])[..., None]
        return axes

    def feet(self, joints: Array) -> tuple[Array, Array]:
        """Return foot centres (..., 4, 3) [m] and their Jacobians (..., 4, 3, 3) by the leg's joints."""
        points = self.points(joints)
        feet = points[..., 3, :]
        columns = np.cross(self.axes(joints), feet[..., None, :] - points[..., :3, :])
        return feet, np.swapaxes(columns, -1, -2)

    def ground_forces(self, joints: Array, torques: Array) -> Array:
        """Return the ground's forces (..., 4, 3) [N] on the feet that balance joint torques (..., 4, 3) [Nm].

        Ignores weight and inertia of the legs. Not finite for a fully stretched leg.
        """
        columns = np.swapaxes(self.feet(joints)[1], -1, -2)
        hip, thigh, calf = (columns[..., k, :] for k in range(3))
        products = np.stack([np.cross(thigh, calf), np.cross(calf, hip), np.cross(hip, thigh)], axis=-2)
        with np.errstate(all="ignore"):
            return -(torques[..., None, :] @ products)[..., 0, :] / (hip * products[..., 0, :]).sum(-1, keepdims=True)

    def joints(self, feet: Array) -> Array:
        """Return joints (..., 4, 3) [rad] that bring the feet to (..., 4, 3) [m], or as near as possible."""
        x, y, z = np.moveaxis(feet - self.hips, -1, 0)
        down = -np.sqrt(np.maximum(y * y + z * z - self._side**2, 1e-4))
        hip = np.arctan2(z, y) - np.arctan2(down, self._side)
        hip = (hip + np.pi) % (2 * np.pi) - np.pi
        length = np.hypot(x, down)
        stretched = self._thigh + self._calf
        reached = np.clip(length, SHORTEST * stretched, LONGEST * stretched)
        x, down = x * reached / length, down * reached / length
        bend = (reached**2 - self._thigh**2 - self._calf**2) / (2 * self._thigh * self._calf)
        knee = -np.arccos(np.clip(bend, -1.0, 1.0))
        thigh = np.arctan2(-x, -down) - np.arctan2(self._calf * np.sin(knee), self._thigh + self._calf * np.cos(knee))
        return np.stack([hip, thigh, knee], axis=-1)


def standing_height(robot: Robot, points: Array, rotation: Array) -> Array:
    """Return heights (...) [m] of the trunk's centre at which the lowest foot (or the trunk) touches the ground.

    points (..., 4, 4, 3): of LegKinematics; rotation (..., 3, 3): from trunk to world.
    """
    up = rotation[..., 2, :]
    feet = (points[..., 3, :] * up[..., None, :]).sum(-1) - robot.geometry.foot_radius
    lowest_corner = -np.abs(up) @ np.array(robot.geometry.trunk)
    return -np.minimum(feet.min(-1), lowest_corner)
