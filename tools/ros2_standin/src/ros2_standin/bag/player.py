"""Plays a bag."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosbags.interfaces import Connection, ConnectionExtRosbag2, Qos
from rosgraph_msgs.msg import Clock

from ..interface_type import load_interface
from ..verb_error import VerbError
from .bag_reader import Bag
from .keyboard import DOWN, RIGHT, SPACE, UP, Keyboard
from .playback_clock import PlaybackClock
from .recorded_qos import PLAYING_DEPTH, playing_profile
from .topic_choice import TopicChoice

SECOND = 1_000_000_000
CLOCK_PROFILE = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
LONGEST_WAIT = 0.2  # [s]
ON_THE_WAY = 0.2  # [s] that the last messages take at most


@dataclass(frozen=True)
class PlayOptions:
    """What to play, and how."""

    choice: TopicChoice
    rate: float = 1.0
    loop: bool = False
    paused: bool = False
    delay: float = 0.0  # [s] before each time
    offset: float = 0.0  # [s] that are left out at the start
    duration: float = math.inf  # [s] of the bag that are played
    clock_rate: float = 0.0  # [Hz] of /clock, 0 for none
    clock_with: TopicChoice | None = None  # topics before whose messages /clock is sent
    overrides: dict[str, QoSProfile] = field(default_factory=dict)


class Player:
    """Publishes the messages of a bag as they were recorded; used by one thread."""

    def __init__(self, node: Node, bag: Bag, options: PlayOptions, keyboard: Keyboard) -> None:
        self._log = node.get_logger()
        self._bag = bag
        self._options = options
        self._keyboard = keyboard
        self._start = bag.start + int(options.offset * SECOND)
        self._clock = PlaybackClock(self._start, options.rate, options.paused)
        self._single_step = False
        self._publishers: dict[str, Publisher] = {}
        for topic in bag.reader.connections:
            if options.choice.takes(topic.topic, topic.msgtype) and topic.topic not in self._publishers:
                self._advertise(node, topic)
        if not self._publishers:
            raise VerbError(f"bag '{bag.path}' has no topic to play: see `ros2 bag info {bag.path}`")
        self._connections = [topic for topic in bag.reader.connections if topic.topic in self._publishers]
        clocked = bool(options.clock_rate or options.clock_with)
        self._clock_publisher = node.create_publisher(Clock, "/clock", CLOCK_PROFILE) if clocked else None
        self._next_tick = time.monotonic()

    def play(self) -> None:
        """Play once, or again and again."""
        while True:
            self._clock.jump(self._start)
            self._wait_for_delay()
            self._play_once()
            if not self._options.loop:
                break
        time.sleep(ON_THE_WAY)

    def wait_for_all_acked(self, timeout: float) -> None:
        """Wait until every listener has confirmed every message, at most `timeout` seconds; 0 for ever."""
        duration = Duration(seconds=timeout) if timeout else Duration(seconds=-1)
        for topic, publisher in self._publishers.items():
            if not publisher.wait_for_all_acked(duration):
                self._log.warning(f"Not all messages of topic '{topic}' were confirmed within {timeout:g} s.")

    def _advertise(self, node: Node, topic: Connection) -> None:
        try:
            message_class = load_interface(topic.msgtype, "msg")
        except VerbError as error:
            self._log.warning(f"Topic '{topic.topic}' is not played: {error}.")
            return
        profile = self._options.overrides.get(topic.topic)
        if profile is None:
            recorded = topic.ext.offered_qos_profiles if isinstance(topic.ext, ConnectionExtRosbag2) else []
            profile = playing_profile([_plain(qos) for qos in recorded])
        if profile is None:
            self._log.warning(f"The publishers of '{topic.topic}' offered different QoS: it is played as reliable.")
            profile = QoSProfile(depth=PLAYING_DEPTH)
        self._publishers[topic.topic] = node.create_publisher(message_class, topic.topic, profile)

    def _wait_for_delay(self) -> None:
        end = time.monotonic() + self._options.delay
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LONGEST_WAIT))
        self._clock.jump(self._start)

    def _play_once(self) -> None:
        until = self._start + self._options.duration * SECOND
        for topic, stamp, content in self._bag.messages(self._connections, self._start):
            if stamp > until:
                break
            self._wait_until(stamp)
            if self._options.clock_with and self._options.clock_with.takes(topic.topic, topic.msgtype):
                self._publish_clock(stamp)
            self._publishers[topic.topic].publish(content)

    def _wait_until(self, stamp: int) -> None:
        """Wait for the bag's time `stamp`; meanwhile obey keys and send /clock."""
        self._tick()
        while (wait := self._clock.wait_time(stamp)) > 0:
            if self._options.clock_rate:
                wait = min(wait, self._next_tick - time.monotonic())
            self._obey(self._keyboard.wait(min(wait, LONGEST_WAIT)))
            self._tick()
            if self._single_step:
                self._single_step = False
                self._clock.jump(stamp)
                return

    def _tick(self) -> None:
        if self._options.clock_rate and time.monotonic() >= self._next_tick:
            self._publish_clock(self._clock.now())
            self._next_tick = max(self._next_tick + 1.0 / self._options.clock_rate, time.monotonic())

    def _publish_clock(self, stamp: int) -> None:
        if self._clock_publisher is not None:
            clock = Clock()
            clock.clock.sec, clock.clock.nanosec = divmod(stamp, SECOND)
            self._clock_publisher.publish(clock)

    def _obey(self, key: str | None) -> None:
        if key == SPACE:
            self._clock.toggle()
            self._log.info("Pausing play." if self._clock.paused else "Resuming play.")
        elif key == RIGHT and self._clock.paused:
            self._single_step = True
        elif key in (UP, DOWN):
            self._clock.rate *= 1.1 if key == UP else 0.9
            self._log.info(f"Set rate to {self._clock.rate:.3g}")


def _plain(qos: Qos) -> dict[str, Any]:
    """Return the profile as metadata.yaml has it, without what the recorder did not know."""
    policies = {
        "reliability": qos.reliability,
        "durability": qos.durability,
        "liveliness": qos.liveliness,
    }
    known = {key: policy.name.lower() for key, policy in policies.items() if policy.name != "UNKNOWN"}
    times = {
        "deadline": qos.deadline,
        "lifespan": qos.lifespan,
        "liveliness_lease_duration": qos.liveliness_lease_duration,
    }
    return {**known, **{key: {"sec": value.sec, "nsec": value.nsec} for key, value in times.items()}}
