"""`ros2 bag record` as a user runs it: processes and DDS."""

import resource
import signal
import time

import pytest

pytest.importorskip("rclpy", reason="the stand-in alone, without ROS from wheels, has no bags")

from ros2_standin.interfaces import message_definition
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader

PATIENCE = 60.0  # [s], for a loaded machine

# Latches a mode and sends numbered joint states on two topics, one best effort, once all have a subscriber.
SOURCE = """
import sys, time
import rclpy
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String

rclpy.init()
node = rclpy.create_node("source")
mode = node.create_publisher(String, "mode", QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
mode.publish(String(data="walking"))
unsure = node.create_publisher(JointState, "unsure", QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT))
sure = node.create_publisher(JointState, "sure", 100)
while not (mode.get_subscription_count() and unsure.get_subscription_count() and sure.get_subscription_count()):
    time.sleep(0.05)
number = 0
while number != int(sys.argv[1]):
    message = JointState(name=["hip"], position=[float(number)])
    message.header.stamp = node.get_clock().now().to_msg()
    unsure.publish(message)
    sure.publish(message)
    number += 1
    time.sleep(0.005)
time.sleep(0.5)
print("sent", flush=True)
time.sleep(1000)
"""
SUBSCRIBED = tuple(f"Subscribed to topic '/{name}'" for name in ("mode", "unsure", "sure"))


def test_a_recording_holds_all_that_was_sent(start, python, until_printed, tmp_path):
    folder = tmp_path / "bag"
    began = time.time_ns()
    sender = python("-c", SOURCE, "300")
    recorder = start(
        "bag", "record", "-o", str(folder), "sure", "/unsure", "mode", "absent",
        "--max-bag-duration", "1", "--custom-data", "model=abc", "git=1=2",
    )  # fmt: skip
    until_printed(sender, "sent")
    recorder.send_signal(signal.SIGINT)
    output, _ = recorder.communicate(timeout=PATIENCE)
    assert recorder.returncode == 0, output
    assert "Topic '/absent' was not recorded" in output
    assert "Recorded 601 messages of 3 topics" in output
    assert "dropped 0" in output

    with AnyReader([folder]) as reader:
        (bag,) = reader.readers
        assert len(list(folder.glob("*.mcap"))) >= 2
        assert bag.storage.metadata.custom == {"model": "abc", "git": "1=2"}
        assert bag.ros_distro == "jazzy"
        topics = {name: info.connections[0] for name, info in reader.topics.items()}
        assert sorted(topics) == ["/mode", "/sure", "/unsure"]
        offered = {name: topic.ext.offered_qos_profiles[0] for name, topic in topics.items()}
        assert offered["/mode"].durability.name == "TRANSIENT_LOCAL"
        assert (offered["/unsure"].reliability.name, offered["/sure"].reliability.name) == ("BEST_EFFORT", "RELIABLE")
        assert topics["/sure"].digest == message_definition("sensor_msgs/msg/JointState")[1] != ""
        for name in ("/sure", "/unsure"):
            found = list(reader.messages([topics[name]]))
            joints = [reader.deserialize(data, topics[name].msgtype) for _, _, data in found]
            assert [message.position[0] for message in joints] == list(range(300))
            for (_, received, _), message in zip(found, joints, strict=True):
                sent = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
                assert began < sent <= received < time.time_ns()


def test_many_signals_at_once_end_a_recording_like_one(start, until_printed, tmp_path):
    recorder = start("bag", "record", "--all", "-o", str(tmp_path / "bag"))
    until_printed(recorder, "Recording")
    for _ in range(300):
        recorder.send_signal(signal.SIGTERM)
    output, _ = recorder.communicate(timeout=PATIENCE)
    assert recorder.returncode == 0, output


def test_a_killed_recorder_has_lost_no_more_than_the_last_second(start, python, until_printed, tmp_path):
    folder = tmp_path / "bag"
    python("-c", SOURCE, "-1")
    recorder = start("bag", "record", "--all", "-o", str(folder), "--storage-preset-profile", "zstd_fast")
    until_printed(recorder, *SUBSCRIBED)
    time.sleep(3.0)
    recorder.kill()
    killed = time.time_ns()
    with Reader(folder) as reader:
        stamps = [stamp for _, stamp, _ in reader.messages()]
        assert reader.message_count == len(stamps) > 100
        assert killed - stamps[-1] < 2_000_000_000  # the second, and what a loaded machine takes


def test_a_full_disk_ends_the_recording_with_a_sentence(start, python, until_printed, tmp_path):
    folder = tmp_path / "bag"
    python("-c", SOURCE, "-1")
    recorder = start("bag", "record", "sure", "mode", "unsure", "-o", str(folder))
    until_printed(recorder, *SUBSCRIBED)
    resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, (40_000, 40_000))
    output, _ = recorder.communicate(timeout=PATIENCE)
    assert recorder.returncode == 1
    assert f"ros2: recording to '{folder}' has stopped: File too large, " in output
    assert "Traceback" not in output
    with Reader(folder) as reader:
        assert f"the {sum(1 for _ in reader.messages())} messages written before are readable" in output
