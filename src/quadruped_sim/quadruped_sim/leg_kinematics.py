"""Closed-form kinematics of the four legs, for batches. Feet are in the trunk's frame, legs in LEGS order."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import LEGS, Robot

FRONT = np.array([1.0 if leg.startswith("F") else -1.0 for leg in LEGS])
LEFT = np.array([1.0 if leg.endswith("L") else -1.0 for leg in LEGS])
LONGEST = 0.985  # of the stretched leg: beyond it the knee would snap through
SHORTEST = 0.22  # of the stretched leg


class LegKinematics:
    """Forward and inverse kinematics of hip (abduction), thigh and calf."""

    def __init__(self, robot: Robot) -> None:
        size = robot.geometry
        self._thigh, self._calf = size.thigh, size.calf
        self._side = size.abduction * LEFT
        self.hips = np.stack([FRONT * size.hip_x, LEFT * size.hip_y, np.zeros(4)], axis=-1)
        self.neutral = self.hips + np.stack([np.zeros(4), self._side, np.zeros(4)], axis=-1)

    def feet(self, joints: Array) -> tuple[Array, Array]:
        """Foot centres (B, 4, 3) [m] and their Jacobians (B, 4, 3, 3) by the leg's joints, from joints (B, 4, 3)."""
        hip, thigh, knee = joints[..., 0], joints[..., 1], joints[..., 1] + joints[..., 2]
        sine, cosine = np.sin(hip), np.cos(hip)
        x = -self._thigh * np.sin(thigh) - self._calf * np.sin(knee)
        down = -self._thigh * np.cos(thigh) - self._calf * np.cos(knee)
        y, z = self._side * cosine - down * sine, self._side * sine + down * cosine
        calf_x, calf_down = -self._calf * np.cos(knee), self._calf * np.sin(knee)
        jacobian = np.empty((*joints.shape, 3))
        jacobian[..., 0, 0], jacobian[..., 0, 1], jacobian[..., 0, 2] = 0.0, down, calf_x
        jacobian[..., 1, 0], jacobian[..., 1, 1], jacobian[..., 1, 2] = -z, x * sine, -calf_down * sine
        jacobian[..., 2, 0], jacobian[..., 2, 1], jacobian[..., 2, 2] = y, -x * cosine, calf_down * cosine
        return np.stack([x, y, z], axis=-1) + self.hips, jacobian

    def joints(self, feet: Array) -> Array:
        """Joints (B, 4, 3) [rad] that bring the feet to (B, 4, 3) [m], or as near as the legs reach."""
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
