"""Fills fields of ROS messages from arrays."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt
from geometry_msgs.msg import Quaternion, Vector3

Array = npt.NDArray[np.float64]


def doubles(values: Array) -> array[float]:
    """A message's float64[]."""
    return array("d", values.tobytes())


def fill_vector(vector: Vector3, values: Array) -> None:
    """Set x, y, z from values (3,)."""
    vector.x, vector.y, vector.z = values.tolist()


def fill_quaternion(quaternion: Quaternion, xyzw: Array) -> None:
    """Set x, y, z, w from values (4,) in this order."""
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = xyzw.tolist()
