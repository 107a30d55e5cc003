"""Quaternions are x, y, z, w and turn the way ROS turns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fcnet_core.rotation import matrix_from_xyzw, projected_gravity, roll_pitch_yaw, xyzw_from_wxyz

angles = st.tuples(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1))


def quaternion(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Rz(yaw) Ry(pitch) Rx(roll) as x, y, z, w, by multiplying the three."""
    (sr, cr), (sp, cp), (sy, cy) = ((np.sin(angle / 2), np.cos(angle / 2)) for angle in (roll, pitch, yaw))
    return np.array(
        [
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
            cr * cp * cy + sr * sp * sy,
        ]
    )


def about(axis: int, angle: float) -> np.ndarray:
    matrix, (i, j) = np.eye(3), [(1, 2), (2, 0), (0, 1)][axis]
    matrix[[i, j], [i, j]] = np.cos(angle)
    matrix[j, i], matrix[i, j] = np.sin(angle), -np.sin(angle)
    return matrix


@given(angles)
def test_matrix_angles_and_gravity_are_those_of_the_product_of_yaw_pitch_and_roll(rpy) -> None:
    turned, q = about(2, rpy[2]) @ about(1, rpy[1]) @ about(0, rpy[0]), quaternion(*rpy)
    np.testing.assert_allclose(matrix_from_xyzw(q), turned, atol=1e-12)
    np.testing.assert_allclose(roll_pitch_yaw(q), rpy, atol=1e-9)
    np.testing.assert_allclose(projected_gravity(q), turned.T @ [0, 0, -1], atol=1e-12)


def test_the_vendors_order_is_w_first() -> None:
    np.testing.assert_array_equal(xyzw_from_wxyz([[1, 2, 3, 4]]), [[2, 3, 4, 1]])
