"""`ros2 bag play` as a user runs it: processes and DDS."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="the stand-in alone, without ROS from wheels, has no bags")

import rclpy
from builtin_interfaces.msg import Time
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import String

PATIENCE = 60.0  # [s], for a loaded machine
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
UNSURE = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
BAG_START, COUNT = 1_700_000_000, 200  # of the fixture `bag`: the first joint state [s], and how many there are


class Listener:
    """What is heard of a player."""

    def __init__(self, domain: int) -> None:
        self.context = Context()
        rclpy.init(args=[], context=self.context, domain_id=domain)
        self.node: Node = rclpy.create_node("listener", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.heard: list[tuple[str, float]] = []  # topic and value
        self.moments: list[float] = []

    def listen(self, kind: type, topic: str, profile: QoSProfile | int = 1000) -> None:
        self.node.create_subscription(kind, topic, lambda message: self._hear(topic, message), profile)

    def _hear(self, topic: str, message: JointState | Clock | String) -> None:
        if isinstance(message, Clock):
            value = seconds(message.clock)
        elif isinstance(message, JointState):
            value = message.position[0]
        else:
            value = float(message.data)
        self.heard.append((topic, value))
        self.moments.append(time.monotonic())

    def of(self, topic: str) -> list[float]:
        return [value for name, value in self.heard if name == topic]

    def spin(self, condition: Callable[[], bool]) -> None:
        def turn() -> bool:
            end = time.monotonic() + 0.05
            while time.monotonic() < end:
                self.executor.spin_once(timeout_sec=0.01)
            return condition()

        wait_for(turn)

    def close(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()


def seconds(stamp: Time) -> float:
    return stamp.sec + stamp.nanosec * 1e-9


@pytest.fixture
def listener(environment: dict[str, str]) -> Iterator[Listener]:
    listener = Listener(int(environment["ROS_DOMAIN_ID"]))
    yield listener
    listener.close()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.fixture
def play(environment: dict[str, str], bag: Path) -> Iterator[Callable[..., Callable[[str], None]]]:
    """Start `ros2 bag play` in a terminal, paused; the returned function presses keys."""
    started: list[subprocess.Popen[bytes]] = []
    files: list[int] = []

    def start_player(*arguments: str) -> Callable[[str], None]:
        terminal, inner = pty.openpty()
        files.extend((terminal, inner))
        command = [sys.executable, "-m", "ros2_standin.program", "bag", "play", str(bag), "--start-paused", *arguments]
        started.append(subprocess.Popen(command, env=environment, stdin=inner, start_new_session=True))

        def press(keys: str) -> None:
            os.write(terminal, keys.encode())

        return press

    yield start_player
    for process in started:
        process.kill()
        process.wait()
    for file in files:
        os.close(file)


def test_play_keeps_messages_pace_and_quality_of_service(
    play: Callable[..., Callable[[str], None]], listener: Listener
):
    listener.listen(JointState, "/joints", UNSURE)
    listener.listen(Clock, "/clock", UNSURE)
    press = play("--rate", "2", "--clock", "50", "--topics", "/joints", "/mode")
    listener.spin(lambda: listener.node.count_publishers("/joints") > 0 and len(listener.of("/clock")) > 20)
    assert listener.of("/joints") == []
    assert set(listener.of("/clock")) == {BAG_START}
    qualities = {
        topic: listener.node.get_publishers_info_by_topic(topic)[0].qos_profile for topic in ("/joints", "/mode")
    }
    assert qualities["/joints"].reliability == ReliabilityPolicy.BEST_EFFORT
    assert qualities["/mode"].durability == DurabilityPolicy.TRANSIENT_LOCAL

    press(" ")
    began = time.monotonic()
    listener.spin(lambda: listener.of("/joints")[-1:] == [COUNT - 1])
    assert listener.of("/joints") == list(range(COUNT))
    assert listener.moments[-1] - began > 0.9  # two seconds at twice their pace
    clock = listener.of("/clock")
    assert clock == sorted(clock)
    assert BAG_START + 1.5 < clock[-1] < BAG_START + 2.5
    # The clock and the messages tell the same time: between two ticks there are those of these 20 ms, twice as fast.
    since = 0.0
    for topic, value in listener.heard:
        if topic == "/clock":
            since = value
        elif since > BAG_START:
            assert abs(BAG_START + value * 0.01 - since) < 0.5


def test_a_loop_latches_and_begins_again(play: Callable[..., Callable[[str], None]], listener: Listener):
    listener.listen(JointState, "/renamed", UNSURE)
    listener.listen(Clock, "/clock", UNSURE)
    press = play(
        "--loop", "--clock-topics-all", "--remap", "/joints:=/renamed", "--start-offset", "0", "--rate", "4",
        "--playback-duration", "0.5",
    )  # fmt: skip
    listener.spin(
        lambda: listener.node.count_publishers("/renamed") > 0 and listener.node.count_publishers("/clock") > 0
    )
    acquainted = time.monotonic() + 2.0  # a publisher that is known need not know the listener yet
    listener.spin(lambda: time.monotonic() > acquainted)
    press(" ")
    listener.spin(lambda: listener.of("/renamed").count(50) >= 3)
    once, heard = list(range(51)), listener.of("/renamed")
    assert heard[heard.index(0) :][:102] == once + once
    # The clock tells the time of each message and goes back at the end of the bag.
    clock = np.array(listener.of("/clock"))
    times = BAG_START + 0.01 * np.array(once)
    assert np.abs(clock[:, None] - times).min(axis=1).max() < 1e-6
    assert (np.diff(clock) < -0.4).sum() >= 2
    press(" ")
    time.sleep(0.5)
    heard = len(listener.heard)
    listener.listen(String, "/mode", LATCHED)
    listener.spin(lambda: listener.of("/mode") == [7.0])
    assert len(listener.of("/renamed")) - heard < 5  # it has paused
    assert listener.node.count_publishers("/joints") == 0
