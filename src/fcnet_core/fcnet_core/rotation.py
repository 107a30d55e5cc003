"""Quaternions. Everywhere in the suite they are x, y, z, w as in ROS; MuJoCo's and Unitree's are converted here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array


def xyzw_from_wxyz(quaternion: npt.ArrayLike) -> Array:
    """Reorder quaternions (..., 4) from w, x, y, z (MuJoCo, Unitree) to x, y, z, w (ROS)."""
    return np.asarray(quaternion, dtype=np.float64)[..., [1, 2, 3, 0]]


def matrix_from_xyzw(quaternion: npt.ArrayLike) -> Array:
    """Rotation matrices (..., 3, 3) from body to world of unit quaternions (..., 4) in x, y, z, w order."""
    x, y, z, w = np.moveaxis(np.asarray(quaternion, dtype=np.float64), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def projected_gravity(quaternion: npt.ArrayLike) -> Array:
    """Direction of gravity in the body frame (..., 3), (0, 0, -1) for an upright body, from x, y, z, w (..., 4)."""
    x, y, z, w = np.moveaxis(np.asarray(quaternion, dtype=np.float64), -1, 0)
    return np.stack([2 * (w * y - x * z), -2 * (y * z + w * x), 2 * (x * x + y * y) - 1], axis=-1)


def roll_pitch_yaw(quaternion: npt.ArrayLike) -> Array:
    """Roll, pitch and yaw (..., 3) [rad] (rotation Rz(yaw) Ry(pitch) Rx(roll)) of x, y, z, w (..., 4)."""
    x, y, z, w = np.moveaxis(np.asarray(quaternion, dtype=np.float64), -1, 0)
    roll = np.arctan2(2 * (y * z + w * x), 1 - 2 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2 * (w * y - x * z), -1.0, 1.0))
    yaw = np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))
    return np.stack([roll, pitch, yaw], axis=-1)
