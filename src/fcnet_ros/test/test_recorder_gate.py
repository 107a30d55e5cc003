"""A robot's start waits for `ros2 bag record`, for no other subscriber, and for a limited time."""

from __future__ import annotations

import threading
import time

import pytest
from rclpy.qos import qos_profile_sensor_data
from ros_harness import wait_until
from std_msgs.msg import String

from fcnet_ros.program import RECORDER, RecorderGate

PATIENCE = 30.0  # [s], for a loaded machine
TOPICS = ("states", "~/mode")


@pytest.fixture
def robot(make_node):
    node = make_node("robot", namespace="dog")
    for topic in TOPICS:
        node.create_publisher(String, topic, qos_profile_sensor_data)
    return node


def subscribe(node, *topics):
    for topic in topics:
        node.create_subscription(String, topic, lambda message: None, qos_profile_sensor_data)


def test_it_opens_when_the_recorder_has_every_topic_and_not_for_another_subscriber(robot, make_node):
    gate = RecorderGate(robot, TOPICS, PATIENCE)
    subscribe(make_node("monitor", namespace="dog"), "states", "robot/mode")
    recorder = make_node(RECORDER, namespace="dog")
    subscribe(recorder, "states")
    wait_until(lambda: len(robot.get_subscriptions_info_by_topic("/dog/states")) == 2, "both subscribers")
    time.sleep(0.5)
    assert not gate.check()
    subscribe(recorder, "robot/mode")
    began = time.monotonic()
    gate.wait(threading.Event())
    assert gate.is_open
    assert time.monotonic() < began + PATIENCE / 2


def test_it_opens_without_a_recorder_after_its_timeout_and_a_stop_ends_the_waiting(robot):
    assert RecorderGate(robot, TOPICS, 0.0).is_open
    gate, began, stop = RecorderGate(robot, TOPICS, 0.5), time.monotonic(), threading.Event()
    gate.wait(stop)
    assert gate.is_open
    assert time.monotonic() >= began + 0.5
    stop.set()
    gate = RecorderGate(robot, TOPICS, PATIENCE)
    gate.wait(stop)
    assert not gate.is_open  # the stop has ended the waiting
