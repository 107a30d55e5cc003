"""Messages read from and written as serialised bytes: the same as rclpy's, and within bounds."""

import contextlib
import time
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from geometry_msgs.msg import Quaternion, Vector3
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from ros_harness import JOINTS
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray, Header, MultiArrayDimension, MultiArrayLayout
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_core.errors import RefusedCommandError
from fcnet_core.observation import LABEL, SIZE, PolicyStep, SensorReading
from fcnet_ros.serialized import MAX_NAMES, MAX_SIZE, NamesReader
from fcnet_ros.state_messages import StateBuffer, StatePublisher
from fcnet_ros.targets import TargetPublisher, TargetReader

SECOND, NANOSECOND = 1_700_000_000, 123_456_789
STAMP = SECOND * 10**9 + NANOSECOND
VALUES = np.linspace(-1.0, 1.0, 12)
VALUES[:4] /= np.linalg.norm(VALUES[:4])  # an orientation
frames = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=40)
numbers = st.lists(st.floats(allow_nan=False), max_size=MAX_NAMES)
names = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), max_size=MAX_NAMES)


def header(frame=""):
    header = Header(frame_id=frame)
    header.stamp.sec, header.stamp.nanosec = SECOND, NANOSECOND
    return header


@given(frame=frames, joints=names, parts=st.tuples(numbers, numbers, numbers))
def test_a_joint_state_of_any_layout_is_read_as_rclpy_reads_it(frame, joints, parts):
    fields = dict(zip(("position", "velocity", "effort"), parts, strict=True))
    message = JointState(header=header(frame), name=joints, **fields)
    reader, content = NamesReader(), serialize_message(message)
    for _ in range(2):  # the second time with names that are known
        fields, stamp, found = reader.read(content)
        assert (stamp, found) == (STAMP, tuple(joints))
        for part in parts:
            np.testing.assert_array_equal(fields.doubles(), part)


@given(frame=frames, joints=names, parts=st.tuples(numbers, numbers, numbers, numbers))
def test_a_trajectory_of_any_layout_is_read_as_rclpy_reads_it(frame, joints, parts):
    positions, velocities, accelerations, effort = parts
    point = JointTrajectoryPoint(positions=positions, velocities=velocities, accelerations=accelerations, effort=effort)
    message = JointTrajectory(header=header(frame), joint_names=joints, points=[point])
    taken = []
    with mock.patch("fcnet_ros.targets.joint_targets", lambda *fields: taken.extend(fields)):
        stamp, _ = TargetReader(JOINTS).read(serialize_message(message))
    assert (stamp, taken[:2]) == (STAMP, [JOINTS, tuple(joints)])
    for read, sent in zip(taken[2:], (positions, velocities, effort), strict=True):
        np.testing.assert_array_equal(read, sent)


def imu(frame):
    """A message with the values of VALUES."""
    return Imu(
        header=header(frame),
        orientation=Quaternion(**dict(zip("xyzw", VALUES[:4].tolist(), strict=True))),
        angular_velocity=Vector3(**dict(zip("xyz", VALUES[4:7].tolist(), strict=True))),
        linear_acceleration=Vector3(**dict(zip("xyz", VALUES[7:10].tolist(), strict=True))),
    )


@pytest.mark.parametrize("frame", ["", "imu_link", "a frame of another length"])
def test_an_imu_is_read_as_rclpy_reads_it(frame):
    state = StateBuffer(JOINTS, 1.0)
    state.store_imu(serialize_message(imu(frame)), 1.0)
    assert state.imu_stamp == pytest.approx(1e-9 * STAMP, abs=1e-6)
    np.testing.assert_array_equal([*state.orientation, *state.angular_velocity], VALUES[:7])


def assert_same(content, message):
    """That rclpy reads the content as this message, and would write as many bytes."""
    assert deserialize_message(content, type(message)) == message
    reference = serialize_message(message)
    assert len(content) == len(reference)


@pytest.mark.parametrize("sizes", [(12, 12, 12), (12, 0, 0), (0, 12, 12), (0, 0, 0)])
def test_a_state_is_written_as_rclpy_writes_it(sizes):
    sent, parts = [], [VALUES[:size] * 3 for size in sizes]
    publisher = SimpleNamespace(publish=sent.append)
    states = StatePublisher(SimpleNamespace(create_publisher=lambda *_: publisher), JOINTS)
    for _ in range(2):
        states.publish(SensorReading(*parts, VALUES[:4], VALUES[4:7], VALUES[7:10]), STAMP)
    position, velocity, effort = (part.tolist() for part in parts)
    expected = JointState(header=header(), name=list(JOINTS), position=position, velocity=velocity, effort=effort)
    assert_same(sent[-2], imu("imu_link"))
    assert_same(sent[-1], expected)


def test_targets_damping_and_steps_are_written_as_rclpy_writes_them():
    sent, publisher = [], TargetPublisher(mock.Mock(), JOINTS)
    for one in publisher.publishers:
        one.publish = sent.append
    publisher.publish(VALUES, STAMP)
    publisher.publish(None, STAMP)
    step = PolicyStep(0.0, 0.0, 3.0, 4.0, True, VALUES[:9], 0.5, False)
    publisher.publish_step(step)
    assert_same(sent[0], targets_message())
    assert_same(sent[1], targets_message(points=[JointTrajectoryPoint(velocities=[0.0] * 12)]))
    layout = MultiArrayLayout(dim=[MultiArrayDimension(label=LABEL, size=SIZE, stride=SIZE)])
    stamp = SECOND + 1e-9 * NANOSECOND
    assert_same(sent[2], Float64MultiArray(layout=layout, data=[stamp, stamp, *step.vector()[2:]]))


def targets_message(**fields):
    point = JointTrajectoryPoint(positions=VALUES.tolist())
    return JointTrajectory(**({"header": header(), "joint_names": list(JOINTS), "points": [point]} | fields))


@pytest.mark.parametrize(
    "message",
    [
        targets_message(joint_names=["x"] * 200_000),
        targets_message(joint_names=["x"] * (MAX_NAMES + 1)),
        targets_message(joint_names=["x" * MAX_SIZE]),
        targets_message(header=header("x" * 1000)),
        targets_message(points=[]),
        targets_message(points=[JointTrajectoryPoint(positions=VALUES.tolist())] * 2),
        targets_message(points=[JointTrajectoryPoint(positions=[0.0] * 1_000_000)]),
        targets_message(points=[JointTrajectoryPoint(positions=[0.0] * 100)]),
    ],
    ids=["many names", "names", "long name", "long frame", "no points", "2 points", "many numbers", "numbers"],
)
def test_a_trajectory_beyond_the_bounds_is_refused_at_once(message):
    content, reader = serialize_message(message), TargetReader(JOINTS)
    began = time.thread_time()
    with pytest.raises(RefusedCommandError) as refusal:
        reader.read(content)
    assert time.thread_time() - began < 0.01
    assert len(str(refusal.value)) < 500


@given(st.data())
def test_damaged_messages_are_refused_or_read_and_raise_nothing_else(data):
    content = bytearray(serialize_message(targets_message()))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(RefusedCommandError):
        TargetReader(JOINTS).read(content)
    state = StateBuffer(JOINTS, 1.0)
    state.store_joints(content, 1.0)
    state.store_imu(content, 1.0)
