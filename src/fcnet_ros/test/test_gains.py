"""The text of joint_gains: what is no table of 12 stiffnesses and dampings is refused with one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.messages import Gains


def table(value):
    return "{" + ", ".join(f'"{joint}": {value}' for joint in JOINT_NAMES) + "}"


def gains(kp="20.0", kd="1.0"):
    return f'{{"kp": {table(kp)}, "kd": {table(kd)}}}'


def read(text):
    return Gains.read(serialize_message(String(data=text))).arrays()


def test_gains_are_read_in_the_order_of_the_joints():
    written = Gains.of_joints(JOINT_NAMES, np.arange(12.0).tolist(), (np.arange(12.0) / 10).tolist())
    kp, kd = read(written.text())
    np.testing.assert_array_equal(kp, np.arange(12.0))
    np.testing.assert_array_equal(kd, np.arange(12.0) / 10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[" * 100_000,
        "[" * 3000,
        '{"kp": ' + "[" * 3000,
        '{"x": ' + "[" * 3000,
        '{"kp": {"FR_hip_joint": ' + '{"a": ' * 500,
        f'{{"kp": {list(JOINT_NAMES)}, "kd": {list(JOINT_NAMES)}}}'.replace("'", '"'),
        gains(kp="9" * 400),
        gains(kp="9" * 150),
        '{"kp": {"FR_hip_joint": ' + "9" * 3900 + "}}",
        gains(kp="1" * 5000),
        *(gains(kd=value) for value in ("NaN", "Infinity", "-Infinity", "1e999", "-1", "true", "null", '"1"', "1e5")),
        gains().replace("FR_hip_joint", "tail_joint"),
        gains().replace("FR_hip_joint", "\\ud800"),
        gains().replace("FR_hip_joint", "x" * 1000),
        gains().replace('"kd"', '"ki"'),
        gains() + gains(),
        "x" * 10_000_000,
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_table_of_gains_is_refused_with_one_sentence(text):
    with pytest.raises(ValueError) as refusal:
        read(text)
    assert len(str(refusal.value)) < 500
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\0\1\0\0",
        b"\0\7\0\0" + b"\2\0\0\0a\0",
        b"\0\1\0\0" + b"\xff\xff\xff\xff" + b"a",
        b"\0\1\0\0" + b"\0\2\0\0" + b"a",
        b"\0\1\0\0" + b"\5\0\0\0" + b"\xff\xfe\x80\x81\0",
    ],
)
def test_a_damaged_message_is_refused(content):
    with pytest.raises(ValueError):
        Gains.read(content)
