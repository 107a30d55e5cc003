"""The ground around a robot as a cloud of points: written, read, and refused where it is none."""

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import PointCloud2

from fcnet_core.errors import MessageError
from fcnet_ros.messages import MAX_POINTS, GroundPatch

HEIGHTS = np.array([[0.0, 0.06, 0.12], [0.0, -0.06, 0.5]])


@pytest.fixture
def cloud():
    return GroundPatch(-1.5, 2.0, 0.1, HEIGHTS).message(Time(sec=3))


def test_heights_arrive_as_they_were_sent(cloud):
    assert (cloud.header.frame_id, cloud.width, cloud.height) == ("odom", 3, 2)
    patch = GroundPatch.read(deserialize_message(serialize_message(cloud), PointCloud2))
    np.testing.assert_allclose(patch.heights, HEIGHTS, atol=1e-6)
    assert (patch.x, patch.y, patch.step) == pytest.approx((-1.5, 2.0, 0.1))


@pytest.mark.parametrize(
    "change",
    [
        {"is_bigendian": True},
        {"point_step": 16},
        {"row_step": 0},
        {"width": 2**31},
        {"height": 0},
        {"width": 1, "height": 6, "row_step": 12},
        {"fields": []},
        {"data": b""},
        {"data": np.full(18, np.nan, "<f4").tobytes()},
        {"data": np.zeros(18, "<f4").tobytes()},
        {"width": MAX_POINTS, "row_step": 12 * MAX_POINTS, "data": bytes(24 * MAX_POINTS)},
    ],
)
def test_what_is_no_grid_is_refused(cloud, change):
    for name, value in change.items():
        setattr(cloud, name, value)
    with pytest.raises(MessageError, match="terrain is ignored"):
        GroundPatch.read(cloud)
