"""The table of topics, and subscriptions that are polled by their owner."""

from __future__ import annotations

import re
import threading
import time
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from made_robots import BIPED
from msgspec import structs
from rclpy.qos import QoSProfile
from ros_harness import TIMEOUT, wait_until
from std_msgs.msg import String

from fcnet_core.control.timing import NEVER
from fcnet_core.names import CONTROLLER, TOPIC_NAMES
from fcnet_core.observation import SensorReading, TrunkPose
from fcnet_core.robot import load_robot
from fcnet_ros.one_publisher import OnePublisher
from fcnet_ros.program import GuardedExecutor
from fcnet_ros.state_messages import OdomPublisher, StateBuffer, StatePublisher, StateReceiver
from fcnet_ros.topics import LATCHED, TF, TOPICS, Topic, publish_description

JOINTS = tuple("abcdefgh")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "driving.md"


@pytest.fixture
def node(make_node):
    return make_node("topics")


def test_every_name_is_in_the_table_of_driving_and_stands_once():
    names = [topic.name for topic in TOPICS]
    assert len(set(names)) == len(names)
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    documented = set(re.findall(r"`([^`]+)`", " ".join(rows)))
    assert set(names) - documented <= {"joint_gains", "controller/policy_step", "joy", "/rosout"}


def test_every_name_has_a_topic_of_its_message_type():
    types = {topic.name: f"{topic.kind.__module__.split('.')[0]}/msg/{topic.kind.__name__}" for topic in TOPICS}
    expected = {topic.of(CONTROLLER).name: topic.type for topic in TOPIC_NAMES}
    assert types == {name: kind for name, kind in expected.items() if name != "tf" or TF}


@pytest.mark.parametrize(("body", "published"), [("biped.urdf", 1), ("biped.xml", 0)])
def test_a_robot_without_a_urdf_has_no_description(node, body, published):
    robot = load_robot(BIPED)
    publish_description(node, structs.replace(robot, model=structs.replace(robot.model, file=str(BIPED.parent / body))))
    assert node.count_publishers("robot_description") == published


def test_messages_beyond_a_topics_limit_are_left_out_and_the_next_is_taken(node):
    topic = Topic("words", String, LATCHED, QoSProfile(depth=10), limit=100)
    taken, found, executor = [], [], GuardedExecutor(node)
    topic.subscribe(node, taken.append)
    polled = OnePublisher(node, topic, lambda message, _: found.append(message.data), 1.0)
    publisher = topic.publisher(node)
    wait_until(lambda: publisher.get_subscription_count() == 2, "subscribers")
    publisher.publish(String(data="x" * 1000))
    publisher.publish(String(data="short"))

    def receive():
        executor.spin_once(timeout_sec=0.01)
        polled.store(NEVER)
        return taken and found

    wait_until(receive, "a message")
    assert [message.data for message in taken] == ["short"]
    assert found == ["short"]
    executor.shutdown()


@pytest.mark.parametrize("interval", [0.004, 0.03])
def test_a_receiver_waits_for_a_state_that_is_younger_than_its_deadline(node, interval):
    buffer, stopping = StateBuffer(JOINTS, 1.0), threading.Event()
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


def test_odom_comes_with_fifty_transforms_a_second_of_the_same_pose_and_frames(node, monkeypatch):
    """Of a stand-in for tf2_msgs, which only a ROS distribution has."""
    sent = []
    publisher = SimpleNamespace(publish=lambda message: sent.append(deepcopy(message.transforms[0])))
    tf = SimpleNamespace(kind=SimpleNamespace, publisher=lambda _node: publisher)
    monkeypatch.setattr("fcnet_ros.state_messages.TF", tf)
    place, turned = np.array([1.5, 0.0, 0.0]), np.array([0.0, 0.0, 0.6, 0.8])
    odom, trunk = OdomPublisher(node), TrunkPose(place, turned, *np.zeros((2, 3)))
    for step in range(250):
        odom.publish(trunk, step * 4_000_000 + 10**9)
    assert [one.header.stamp.nanosec for one in sent] == list(range(0, 10**9, 20_000_000))
    assert (sent[0].header.frame_id, sent[0].child_frame_id) == ("odom", "base_link")
    assert (sent[0].transform.translation.x, sent[0].transform.rotation.z) == (1.5, 0.6)
