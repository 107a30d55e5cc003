"""`ros2 bag` as a user runs it: processes and DDS."""

from __future__ import annotations

import os
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

import rclpy
from builtin_interfaces.msg import Time
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from ros2_standin.bag.bag_writer import BagWriter
from ros2_standin.bag.message_definition import message_definition, type_hash
from ros2_standin.bag.recorded_qos import profile_as_plain
from ros2_standin.bag.recorded_topic import RecordedTopic
from ros2_standin.program import main, make_parser
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import String

Finish = Callable[..., tuple[int, str]]
Start = Callable[..., "subprocess.Popen[str]"]
PATIENCE = 60.0  # [s], for a loaded machine
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
UNSURE = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)

# Latches a mode and sends numbered joint states on two topics, on one without guarantee, as soon as all are heard.
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


@pytest.fixture
def source(environment: dict[str, str]) -> Iterator[Callable[[int], subprocess.Popen[str]]]:
    """Start the source; it sends so many messages, -1 for no end, and prints "sent"."""
    started: list[subprocess.Popen[str]] = []

    def start_source(count: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SOURCE, str(count)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        return process

    yield start_source
    for process in started:
        process.kill()
        process.communicate()


def wait_for_line(process: subprocess.Popen[str], *texts: str) -> None:
    waiting = set(texts)
    assert process.stdout is not None
    for line in process.stdout:
        waiting = {text for text in waiting if text not in line}
        if not waiting:
            return
    raise AssertionError(f"the program has ended without printing {waiting}")


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


SUBSCRIBED = tuple(f"Subscribed to topic '/{name}'" for name in ("mode", "unsure", "sure"))


def test_a_recording_holds_all_that_was_sent(
    start: Start, source: Callable[..., subprocess.Popen[str]], tmp_path: Path
):
    folder = tmp_path / "bag"
    began = time.time_ns()
    sender = source(300)
    recorder = start(
        "bag", "record", "-o", str(folder), "--topics", "sure", "/unsure", "mode", "absent",
        "--max-bag-duration", "1", "--custom-data", "model=abc", "git=1=2",
    )  # fmt: skip
    wait_for_line(sender, "sent")
    recorder.send_signal(signal.SIGINT)
    output, _ = recorder.communicate(timeout=PATIENCE)
    assert recorder.returncode == 0, output
    assert "Topic '/absent' was not recorded" in output
    assert "Recorded 601 messages of 3 topics" in output
    assert "lost 0" in output

    store = get_typestore(Stores.EMPTY)
    with Reader(folder) as reader:
        assert len(list(folder.glob("*.mcap"))) >= 2
        assert reader.storage.metadata.custom == {"model": "abc", "git": "1=2"}
        assert reader.ros_distro == "jazzy"
        topics = {name: info.connections[0] for name, info in reader.topics.items()}
        assert sorted(topics) == ["/mode", "/sure", "/unsure"]
        offered = {name: topic.ext.offered_qos_profiles[0] for name, topic in topics.items()}
        assert offered["/mode"].durability.name == "TRANSIENT_LOCAL"
        assert (offered["/unsure"].reliability.name, offered["/sure"].reliability.name) == ("BEST_EFFORT", "RELIABLE")
        assert topics["/sure"].digest == type_hash("sensor_msgs/msg/JointState") != ""
        for name in ("/sure", "/unsure"):
            store.register(get_types_from_msg(topics[name].msgdef.data, topics[name].msgtype))
            found = list(reader.messages([topics[name]]))
            joints = [store.deserialize_cdr(data, topics[name].msgtype) for _, _, data in found]
            assert [message.position[0] for message in joints] == list(range(300))
            for (_, received, _), message in zip(found, joints, strict=True):
                sent = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
                assert began < sent <= received < time.time_ns()


def test_a_killed_recorder_has_lost_no_more_than_the_last_second(
    start: Start, finish: Finish, source: Callable[..., subprocess.Popen[str]], tmp_path: Path
):
    folder = tmp_path / "bag"
    source(-1)
    recorder = start("bag", "record", "--all", "-o", str(folder), "--storage-preset-profile", "zstd_fast")
    wait_for_line(recorder, *SUBSCRIBED)
    time.sleep(3.0)
    recorder.kill()
    killed = time.time_ns()
    with Reader(folder) as reader:
        stamps = [stamp for _, stamp, _ in reader.messages()]
        assert reader.message_count == len(stamps) > 100
        assert killed - stamps[-1] < 2_000_000_000  # the second, and what a loaded machine takes
    code, output = finish("bag", "info", str(folder))
    assert code == 0
    assert f"Messages:          {len(stamps)}\n" in output


def test_a_full_disk_ends_the_recording_with_a_sentence(
    start: Start, source: Callable[..., subprocess.Popen[str]], tmp_path: Path
):
    folder = tmp_path / "bag"
    source(-1)
    recorder = start("bag", "record", "sure", "mode", "unsure", "-o", str(folder))
    wait_for_line(recorder, *SUBSCRIBED)
    resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, (40_000, 40_000))
    output, _ = recorder.communicate(timeout=PATIENCE)
    assert recorder.returncode == 1
    assert f"ros2: recording to '{folder}' has stopped: File too large; the" in output
    assert "Traceback" not in output
    with Reader(folder) as reader:
        assert f"the {sum(1 for _ in reader.messages())} messages written before are readable" in output


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


BAG_START = 1_700_000_000
COUNT = 200


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """Two seconds of joint states, a mode that was latched once, and something of a type that nobody has."""
    writer = BagWriter(tmp_path / "played", max_duration=1_000_000_000)
    kinds = {
        "/joints": ("sensor_msgs/msg/JointState", UNSURE),
        "/mode": ("std_msgs/msg/String", LATCHED),
        "/odd": ("odd_msgs/msg/Odd", UNSURE),
    }
    for name, (kind, profile) in kinds.items():
        encoding, definition = message_definition(kind)
        described = (profile_as_plain(profile) | {"history": "unknown", "depth": 0},)
        writer.add_topic(RecordedTopic(name, kind, type_hash(kind), described, definition, encoding))
    start = BAG_START * 1_000_000_000
    writer.add([("/mode", start, start, serialize_message(String(data="7")))])
    for number in range(COUNT):
        stamp = start + number * 10_000_000
        writer.add([("/joints", stamp, stamp, serialize_message(JointState(name=["hip"], position=[float(number)])))])
    writer.add([("/odd", stamp, stamp, b"\0\1\0\0")])
    writer.close()
    return writer.folder


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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("record", "-a", "-o", "{bag}"), "output folder '{bag}' already exists"),
        (
            ("record", "-a", "-o", "{bag}/metadata.yaml/x"),
            "cannot create the bag '{bag}/metadata.yaml/x': Not a directory",
        ),
        (("record", "-o", "x"), "no topics to record"),
        (("play", "{bag}x"), "there is no bag '{bag}x'"),
        (("play", "{bag}", "--topics", "/odd"), "has no topic to play"),
        (("info", "{bag}/.."), "is no bag: there is no metadata.yaml in it"),
        (("info", "{bag}", "-s", "sqlite3"), "is stored as mcap, not as sqlite3"),
        (("reindex", "{bag}x"), "there is no bag folder '{bag}x'"),
    ],
)
def test_what_cannot_be_done_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    bag: Path,
    arguments: tuple[str, ...],
    sentence: str,
):
    monkeypatch.setattr(sys, "argv", ["ros2", "bag", *(argument.format(bag=bag) for argument in arguments)])
    assert main() == 1
    assert sentence.format(bag=bag) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("record", "-a", "--storage", "sqlite3"), "there is no storage 'sqlite3' to record to"),
        (("record", "-a", "--custom-data", "model"), "'model' is not KEY=VALUE"),
        (("record", "-a", "--services", "/x"), "unrecognized arguments: --services"),
        (("record", "-a", "--max-bag-size", "-1"), "-1 is negative"),
        (("play", "x", "--rate", "0"), "0 is not a positive number"),
        (("play", "x", "--clock", "--clock-topics-all"), "not allowed with argument"),
    ],
)
def test_what_is_unknown_is_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str):
    with pytest.raises(SystemExit):
        make_parser().parse_args(["bag", *arguments])
    assert sentence in capsys.readouterr().err


def test_info_is_laid_out_as_upstream(finish: Finish, bag: Path):
    code, output = finish("bag", "info", str(bag), TZ="UTC")
    assert code == 0
    assert output.splitlines() == [
        "",
        "Files:             played_0.mcap",
        "                   played_1.mcap",
        f"Bag size:          {sum(file.stat().st_size for file in bag.glob('*.mcap')) / 1024:.1f} KiB",
        "Storage id:        mcap",
        "ROS Distro:        jazzy",
        "Duration:          1.990000000s",
        "Start:             Nov 14 2023 22:13:20.000000000 (1700000000.000000000)",
        "End:               Nov 14 2023 22:13:21.990000000 (1700000001.990000000)",
        "Messages:          202",
        "Topic information: Topic: /joints | Type: sensor_msgs/msg/JointState | Count: 200 | Serialization Format: cdr",
        "                   Topic: /mode | Type: std_msgs/msg/String | Count: 1 | Serialization Format: cdr",
        "                   Topic: /odd | Type: odd_msgs/msg/Odd | Count: 1 | Serialization Format: cdr",
        "Service:           0",
        "Service information: ",
    ]
