"""The table of topics, and the limits of their messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made_robots import BIPED
from msgspec import structs
from rclpy.qos import QoSProfile
from ros_harness import wait_until
from std_msgs.msg import String

from fcnet_core.control.timing import NEVER
from fcnet_core.names import CONTROLLER, TOPIC_NAMES
from fcnet_core.robot import load_robot
from fcnet_ros.one_publisher import OnePublisher
from fcnet_ros.program import GuardedExecutor
from fcnet_ros.topics import LATCHED, TF, TOPICS, Topic, publish_description

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


def test_messages_that_are_damaged_or_beyond_a_topics_limit_are_left_out_and_the_next_is_taken(node):
    topic = Topic("words", String, LATCHED, QoSProfile(depth=10), limit=100)
    taken, found, executor = [], [], GuardedExecutor(node)
    topic.subscribe(node, taken.append)
    polled = OnePublisher(node, topic, lambda message, _: found.append(message.data), 1.0)
    publisher = topic.publisher(node)
    wait_until(lambda: publisher.get_subscription_count() == 2, "subscribers")
    publisher.publish(b"\0\1\0\0\xff")
    wait_until(lambda: polled.store(NEVER) and polled.received > NEVER, "the damaged message")
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
