"""The newest state received: joints by name, and why it must not be used; odometry and ground of a simulation."""

import math
import re
import sys
import threading
import time
from copy import deepcopy
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from geometry_msgs.msg import Quaternion, Vector3
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.time import Time
from ros_harness import JOINTS, TIMEOUT
from sensor_msgs.msg import Imu, JointState, PointCloud2

from fcnet_core.errors import MessageError
from fcnet_core.names import IMU, JOINT_STATES
from fcnet_core.observation import SensorReading, TrunkPose
from fcnet_ros.state_messages import MAX_POINTS, GroundPatch, OdomPublisher, StateBuffer, StatePublisher, StateReceiver

HJOINTSS = np.array([[0.0, 0.06, 0.12], [0.0, -0.06, 0.5]])
UPRIGHT = (0.0, 0.0, 0.0, 1.0)
STILL = serialize_message(JointState(name=list(JOINTS), position=np.zeros(12), velocity=np.zeros(12)))


@pytest.fixture
def buffer():
    return StateBuffer(JOINTS, timeout=0.1)


def made(names=JOINTS, position=None, velocity=None, orientation=UPRIGHT, rate=(0, 0, 0), stamp=0.0):
    """A serialised JointState and Imu."""
    position = np.arange(len(names)) * 0.1 if position is None else position
    velocity = np.arange(len(names)) * 1.0 if velocity is None else velocity
    joints = JointState(name=list(names), position=position, velocity=velocity)
    (qx, qy, qz, qw), (x, y, z) = map(float, orientation), map(float, rate)
    imu = Imu(orientation=Quaternion(x=qx, y=qy, z=qz, w=qw), angular_velocity=Vector3(x=x, y=y, z=z))
    for message in (joints, imu):
        message.header.stamp = Time(seconds=stamp).to_msg()
    return serialize_message(joints), serialize_message(imu)


def store(buffer, names=JOINTS, now=1.0, **values):
    joints, imu = made(names, **values)
    buffer.store_joints(joints, now)
    buffer.store_imu(imu, now)


def test_joints_and_their_torques_are_matched_by_name_in_any_order_among_others(buffer):
    names = [*reversed(JOINTS), "arm_joint"]
    store(buffer, names)
    assert buffer.problem(1.0) is None
    np.testing.assert_allclose(buffer.joint_position, np.arange(12)[::-1] * 0.1)
    np.testing.assert_allclose(buffer.joint_velocity, np.arange(12)[::-1])
    assert np.isnan(buffer.joint_effort).all()  # there is not one for each joint
    joints = JointState(name=JOINTS[::-1], position=np.zeros(12), velocity=np.zeros(12), effort=np.arange(12.0))
    buffer.store_joints(serialize_message(joints), 1.0)
    np.testing.assert_array_equal(buffer.joint_effort, np.arange(12.0)[::-1])


def test_a_message_that_lacks_a_joint_is_a_problem_and_changes_no_value(buffer):
    store(buffer)
    before = buffer.joint_position.copy()
    store(buffer, ("leg1", *JOINTS[1:]), position=np.full(12, 9.0))
    assert {JOINTS[0], "leg1"} <= set(re.findall(r"\w+", buffer.problem(1.0)))
    np.testing.assert_array_equal(buffer.joint_position, before)


@pytest.mark.parametrize("received", [False, True])
def test_a_part_that_was_not_received_or_is_stale_is_a_problem_that_names_its_topic(buffer, received):
    if received:
        store(buffer)
        assert buffer.problem(1.09) is None
    assert JOINT_STATES.name in buffer.problem(1.12)
    buffer.store_joints(STILL, 1.12)
    assert IMU.name in buffer.problem(1.12)


@pytest.mark.parametrize(
    ("field", "values", "words"),
    [
        ("velocity", [], "0 velocities"),
        ("orientation", [0.0] * 4, "unit quaternion"),
        *(
            (field, [0.0] * (size - 1) + [bad], words)
            for bad in (math.nan, math.inf, -math.inf)
            for field, size, words in (
                ("position", 12, f"position of {JOINTS[-1]}"),
                ("velocity", 12, f"velocity of {JOINTS[-1]}"),
                ("rate", 3, "angular velocity"),
                ("orientation", 4, "orientation"),
            )
        ),
    ],
)
def test_a_value_that_is_missing_not_finite_or_no_rotation_is_a_problem(buffer, field, values, words):
    store(buffer, **{field: values})
    assert words in buffer.problem(1.0)


@pytest.mark.parametrize("quantity", ["orientation", "angular_velocity"])
def test_a_quantity_whose_covariance_says_that_it_is_not_measured_is_a_problem(buffer, quantity):
    store(buffer)
    imu = Imu()
    imu.orientation.w = 1.0
    getattr(imu, f"{quantity}_covariance")[0] = -1.0
    buffer.store_imu(serialize_message(imu), 1.0)
    assert quantity.replace("_", " ") in buffer.problem(1.0) and "not measured" in buffer.problem(1.0)
    assert np.isnan(buffer.orientation).all() == (quantity == "orientation")
    imu.linear_acceleration_covariance[0] = -1.0  # which no controller needs
    getattr(imu, f"{quantity}_covariance")[0] = 0.0
    buffer.store_imu(serialize_message(imu), 1.0)
    assert buffer.problem(1.0) is None


BAD_RATE, NO_ATTITUDE = {"rate": [math.nan] * 3}, {"orientation": [0.0] * 4}
UNNAMED, OF_TODAY = {"names": JOINTS[1:]}, {"stamp": 1_700_000_000}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("simulated", "before", "after"),
    [
        (False, None, UNNAMED),
        (False, {"now": 0.5}, UNNAMED),
        (False, {"now": 0.5}, {}),
        (False, {}, {"position": [math.nan] * 12} | NO_ATTITUDE),
        (False, BAD_RATE, NO_ATTITUDE),
        (True, {"stamp": 0.5}, {"stamp": 0.6}),
        (True, OF_TODAY | NO_ATTITUDE, {"stamp": 1}),
        (True, {"stamp": 1}, OF_TODAY | NO_ATTITUDE),
    ],
)
def test_whoever_asks_while_a_message_is_stored_gets_the_answer_of_before_or_after(simulated, before, after, order):
    """Another thread may ask between any two lines of the one that stores; here the latter asks there itself."""
    buffer, answers = StateBuffer(JOINTS, timeout=0.1, simulated_time=simulated), []

    def ask_before_a_line(_frame, event, _argument):
        if event == "line":
            answers.append(buffer.problem(1.0))
        return ask_before_a_line

    def trace(frame, _event, _argument):
        return ask_before_a_line if frame.f_code.co_name in ("store_joints", "store_imu") else None

    if before is not None:
        store(buffer, **before)
    for store_part, content in list(zip((buffer.store_joints, buffer.store_imu), made(**after), strict=True))[::order]:
        answers[:] = [buffer.problem(1.0)]
        former = sys.gettrace()
        sys.settrace(trace)
        store_part(content, 1.0)
        sys.settrace(former)
        assert len(answers) > 5
        assert set(answers) <= {answers[0], buffer.problem(1.0)}


@pytest.mark.parametrize("interval", [0.004, 0.03])
def test_a_receiver_waits_for_a_state_that_is_younger_than_its_deadline(make_node, interval):
    node, buffer, stopping = make_node("robot"), StateBuffer(JOINTS, 1.0), threading.Event()
    receiver, publisher = StateReceiver(node, buffer), StatePublisher(node, JOINTS)
    nothing = np.zeros(len(JOINTS))
    reading = SensorReading(nothing, nothing, nothing, np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(3), np.zeros(3))

    def publish():
        while not stopping.wait(interval):
            publisher.publish(reading, time.time_ns())

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for _ in range(20):
            since = time.monotonic()
            receiver.receive(since, since + TIMEOUT)
            assert buffer.received >= since
            assert buffer.problem(time.monotonic()) is None
    finally:
        stopping.set()
        thread.join()
    since = time.monotonic() + 1.0
    receiver.receive(since, time.monotonic())  # does not wait beyond the end
    assert buffer.received < since


def test_odom_comes_with_fifty_transforms_a_second_of_the_same_pose_and_frames(monkeypatch):
    """Of a stand-in for tf2_msgs, which only a ROS distribution has."""
    sent = []
    publisher = SimpleNamespace(publish=lambda message: sent.append(deepcopy(message.transforms[0])))
    tf = SimpleNamespace(kind=SimpleNamespace, publisher=lambda _node: publisher)
    monkeypatch.setattr("fcnet_ros.state_messages.TF", tf)
    place, turned = np.array([1.5, 0.0, 0.0]), np.array([0.0, 0.0, 0.6, 0.8])
    odom, trunk = OdomPublisher(Mock()), TrunkPose(place, turned, *np.zeros((2, 3)))
    for step in range(250):
        odom.publish(trunk, step * 4_000_000 + 10**9)
    assert [one.header.stamp.nanosec for one in sent] == list(range(0, 10**9, 20_000_000))
    assert (sent[0].header.frame_id, sent[0].child_frame_id) == ("odom", "base_link")
    assert (sent[0].transform.translation.x, sent[0].transform.rotation.z) == (1.5, 0.6)


@pytest.fixture
def cloud():
    return GroundPatch(-1.5, 2.0, 0.1, HJOINTSS).message(Time(seconds=3).to_msg())


def test_heights_arrive_as_they_were_sent(cloud):
    assert (cloud.header.frame_id, cloud.width, cloud.height) == ("odom", 3, 2)
    patch = GroundPatch.read(deserialize_message(serialize_message(cloud), PointCloud2))
    np.testing.assert_allclose(patch.heights, HJOINTSS, atol=1e-6)
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
