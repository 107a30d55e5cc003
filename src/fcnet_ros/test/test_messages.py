"""Messages of gains and of the ground: read as they were written, and refused with one sentence if they are invalid."""

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message, serialize_message
from ros_harness import JOINTS
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String

from fcnet_core.errors import MessageError
from fcnet_ros.state_messages import MAX_POINTS, GroundPatch
from fcnet_ros.targets import gains_text, read_gains

HEIGHTS = np.array([[0.0, 0.06, 0.12], [0.0, -0.06, 0.5]])


def gains(kp="20.0", kd="1.0"):
    tables = ("{" + ", ".join(f'"{joint}": {value}' for joint in JOINTS) + "}" for value in (kp, kd))
    return '{{"kp": {}, "kd": {}}}'.format(*tables)


def read(text):
    content = text if isinstance(text, bytes) else serialize_message(String(data=text))
    return read_gains(content, JOINTS)


def test_gains_are_read_in_the_order_of_the_joints():
    kp, kd = read(gains_text(JOINTS, np.arange(12.0).tolist(), (np.arange(12.0) / 10).tolist()))
    np.testing.assert_array_equal(kp, np.arange(12.0))
    np.testing.assert_array_equal(kd, np.arange(12.0) / 10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        '{"kp": ' + "[" * 3000,
        '{"kp": {"FR_hip_joint": ' + '{"a": ' * 500,
        f'{{"kp": {list(JOINTS)}, "kd": {list(JOINTS)}}}'.replace("'", '"'),
        gains(kp="9" * 400),
        '{"kp": {"FR_hip_joint": ' + "9" * 3900 + "}}",
        gains(kp="1" * 5000),
        *(gains(kd=value) for value in ("NaN", "Infinity", "-Infinity", "1e999", "-1", "true", "null", '"1"', "1e5")),
        gains().replace("FR_hip_joint", "tail_joint"),
        gains().replace("FR_hip_joint", "\\ud800"),
        gains().replace("FR_hip_joint", "x" * 1000),
        gains().replace('"kd"', '"ki"'),
        gains() + gains(),
        "x" * 10_000_000,
        b"",
        b"\0",
        b"\0\1\0\0",
        b"\0\7\0\0" + b"\2\0\0\0a\0",
        b"\0\1\0\0" + b"\xff\xff\xff\xff" + b"a",
        b"\0\1\0\0" + b"\0\2\0\0" + b"a",
        b"\0\1\0\0" + b"\5\0\0\0" + b"\xff\xfe\x80\x81\0",
    ],
    ids=lambda text: repr(text[:30]),
)
def test_what_is_damaged_or_no_table_of_gains_is_refused_with_one_sentence(text):
    with pytest.raises(ValueError) as refusal:
        read(text)
    assert len(str(refusal.value)) < 500
    assert "\n" not in str(refusal.value)


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
