"""Quaternions are x, y, z, w and turn the way ROS turns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from fcnet_core.rotation import matrix_from_xyzw, projected_gravity, roll_pitch_yaw, xyzw_from_wxyz

angles = st.tuples(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1))


@given(angles)
def test_matrix_angles_and_gravity_are_those_of_the_product_of_yaw_pitch_and_roll(rpy) -> None:
    turned = Rotation.from_euler("ZYX", rpy[::-1])  # Rz(yaw) Ry(pitch) Rx(roll)
    np.testing.assert_allclose(matrix_from_xyzw(turned.as_quat()), turned.as_matrix(), atol=1e-12)
    np.testing.assert_allclose(roll_pitch_yaw(turned.as_quat()), rpy, atol=1e-9)
    np.testing.assert_allclose(projected_gravity(turned.as_quat()), turned.inv().apply([0, 0, -1]), atol=1e-12)


def test_the_vendors_order_is_w_first() -> None:
    np.testing.assert_array_equal(xyzw_from_wxyz([[1, 2, 3, 4]]), [[2, 3, 4, 1]])
