"""`ros2 bag play` as a user runs it: processes and DDS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

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
BEST_EFFORT = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
BAG_START, COUNT = 1_700_000_000, 200  # of the fixture `bag`: the first joint state [s], and how many there are


class Listener:
    """What a player sends."""

    def __init__(self, domain: int) -> None:
        self.context = Context()
        rclpy.init(args=[], context=self.context, domain_id=domain)
        self.node: Node = rclpy.create_node("listener", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.received: list[tuple[str, float]] = []  # topic and value
        self.times: list[float] = []

    def listen(self, kind: type, topic: str, profile: QoSProfile | int = 1000) -> None:
        self.node.create_subscription(kind, topic, lambda message: self._receive(topic, message), profile)

    def _receive(self, topic: str, message: JointState | Clock | String) -> None:
        if isinstance(message, Clock):
            value = seconds(message.clock)
        elif isinstance(message, JointState):
            value = message.position[0]
        else:
            value = float(message.data)
        self.received.append((topic, value))
        self.times.append(time.monotonic())

    def of(self, topic: str) -> list[float]:
        return [value for name, value in self.received if name == topic]

    def spin(self, condition: Callable[[], bool]) -> None:
        def check() -> bool:
            end = time.monotonic() + 0.05
            while time.monotonic() < end:
                self.executor.spin_once(timeout_sec=0.01)
            return condition()

        wait_for(check)

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
def play(start: Callable[..., object], bag: Path) -> Callable[..., None]:
    """Start `ros2 bag play`; it waits before each time, so that the listener is there first."""
    return lambda *arguments: start("bag", "play", str(bag), "--delay", "5", *arguments)


def test_play_keeps_messages_pace_and_quality_of_service(play: Callable[..., None], listener: Listener):
    listener.listen(JointState, "/joints", BEST_EFFORT)
    listener.listen(Clock, "/clock", BEST_EFFORT)
    listener.listen(String, "/mode", LATCHED)
    play("--rate", "2", "--clock", "50", "--topics", "/joints", "/mode")
    listener.spin(lambda: listener.node.count_publishers("/joints") > 0 and listener.node.count_publishers("/mode") > 0)
    offered = {
        topic: listener.node.get_publishers_info_by_topic(topic)[0].qos_profile for topic in ("/joints", "/mode")
    }
    assert offered["/joints"].reliability == ReliabilityPolicy.BEST_EFFORT
    assert offered["/mode"].durability == DurabilityPolicy.TRANSIENT_LOCAL
    assert listener.node.count_publishers("/odd") == 0

    listener.spin(lambda: listener.of("/joints")[-1:] == [COUNT - 1])
    assert listener.of("/joints") == list(range(COUNT))
    assert listener.of("/mode") == [7.0]
    assert listener.times[-1] - listener.times[0] > 0.9  # two seconds at twice their pace
    clock = listener.of("/clock")
    assert clock == sorted(clock)
    assert BAG_START <= clock[0] < BAG_START + 1.0
    assert BAG_START + 1.5 < clock[-1] < BAG_START + 2.5
    # The clock and the messages agree: between two ticks there are those of these 20 ms, twice as fast.
    since = 0.0
    for topic, value in listener.received:
        if topic == "/clock":
            since = value
        elif topic == "/joints" and since > 0.0:
            assert abs(BAG_START + value * 0.01 - since) < 0.5


def test_a_loop_begins_again_under_other_names(play: Callable[..., None], listener: Listener):
    listener.listen(JointState, "/renamed", BEST_EFFORT)
    play("--loop", "--remap", "/joints:=/renamed", "--rate", "4")
    listener.spin(lambda: listener.of("/renamed").count(COUNT - 1) >= 2)
    assert listener.of("/renamed")[: 2 * COUNT] == 2 * list(range(COUNT))
    assert listener.node.count_publishers("/joints") == 0
