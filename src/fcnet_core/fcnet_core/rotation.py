"""Quaternions, tilt and gravity. Quaternions are x, y, z, w as in ROS; MuJoCo's and Unitree's are converted here."""

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask

GRAVITY = 9.81  # [m/s^2]
NO_ESTIMATE = -1.0  # first number of a covariance in sensor_msgs/Imu: the quantity is not measured
UNIT_TOLERANCE = 0.05  # by which the length of a measured orientation may differ from 1


def xyzw_from_wxyz(quaternion: npt.ArrayLike) -> Array:
    """Reorder quaternions (..., 4) from w, x, y, z (MuJoCo, Unitree) to x, y, z, w (ROS)."""
    return np.asarray(quaternion, dtype=np.float64)[..., [1, 2, 3, 0]]


def is_orientation(quaternion: npt.ArrayLike) -> Mask:
    """Return whether quaternions (..., 4) are unit quaternions; IMUs without attitude send zeros."""
    unit: Mask = np.abs(np.linalg.norm(quaternion, axis=-1) - 1.0) <= UNIT_TOLERANCE  # false for NaN
    return unit


def matrix_from_xyzw(quaternion: npt.ArrayLike) -> Array:
    """Return rotation matrices (..., 3, 3) from body to world for unit quaternions x, y, z, w (..., 4)."""
    x, y, z, w = np.moveaxis(np.asarray(quaternion, dtype=np.float64), -1, 0)
    entries = [
        *(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        *(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        *(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    ]
    return np.stack(entries, axis=-1).reshape(*x.shape, 3, 3)


def xyzw_from_roll_pitch(roll: float, pitch: float) -> Array:
    """Return the quaternion (4,) x, y, z, w of the rotation Ry(pitch) Rx(roll) [rad], without yaw."""
    sin_roll, cos_roll = np.sin(roll / 2), np.cos(roll / 2)
    sin_pitch, cos_pitch = np.sin(pitch / 2), np.cos(pitch / 2)
    return np.array([sin_roll * cos_pitch, cos_roll * sin_pitch, -sin_roll * sin_pitch, cos_roll * cos_pitch])


def product(first: npt.ArrayLike, second: npt.ArrayLike) -> Array:
    """Return the quaternion (4,) x, y, z, w of the rotation `second`, then `first`."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    vector = a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])
    return np.array([*vector, a[3] * b[3] - a[:3] @ b[:3]])


def projected_gravity(quaternion: npt.ArrayLike) -> Array:
    """Return the direction of gravity (..., 3) in the body frame, (0, 0, -1) if upright, for x, y, z, w (..., 4)."""
    turned = np.asarray(quaternion, dtype=np.float64)
    x, y, z, w = turned.tolist() if turned.ndim == 1 else turned.T  # in every control cycle: the cheapest form of both
    return np.array([2 * (w * y - x * z), -2 * (y * z + w * x), 2 * (x * x + y * y) - 1]).T


def tilt(quaternion: npt.ArrayLike) -> Array:
    """Return the angle (...) [rad] between the body's z axis and the vertical, for x, y, z, w (..., 4)."""
    return tilt_of_gravity(projected_gravity(quaternion))


def tilt_of_gravity(gravity: npt.ArrayLike) -> Array:
    """Return the tilt (...) [rad] of a body from the direction of gravity (..., 3) in its frame."""
    return np.arccos(np.clip(-np.asarray(gravity, dtype=np.float64)[..., 2], -1.0, 1.0))


def roll_pitch_yaw(quaternion: npt.ArrayLike) -> Array:
    """Return roll, pitch and yaw (..., 3) [rad] of x, y, z, w (..., 4), for the rotation Rz(yaw) Ry(pitch) Rx(roll)."""
    x, y, z, w = np.moveaxis(np.asarray(quaternion, dtype=np.float64), -1, 0)
    roll = np.arctan2(2 * (y * z + w * x), 1 - 2 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2 * (w * y - x * z), -1.0, 1.0))
    yaw = np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))
    return np.stack([roll, pitch, yaw], axis=-1)
