"""Plays a bag."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from rosbags.interfaces import Connection, ConnectionExtRosbag2, Qos
from rosbags.rosbag2 import Reader
from rosgraph_msgs.msg import Clock

from ..bag_recorder import SECOND
from ..interfaces import load_interface
from ..verb import VerbError
from .reader import read_messages

POLICIES = {
    "history": HistoryPolicy,
    "reliability": ReliabilityPolicy,
    "durability": DurabilityPolicy,
    "liveliness": LivelinessPolicy,
}
LATCHED_DEPTH = 10  # upstream's: what somebody who comes late is given

CLOCK_PROFILE = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
PLAYING_DEPTH = 1000  # messages that wait for slow listeners
ON_THE_WAY = 0.2  # [s] that the last messages take at most


class Player:
    """Publishes the messages of a bag at `rate` times real time; used by one thread.

    `topics`: the only ones to play, all if empty; `clock_rate` [Hz] of /clock, 0 for none; `overrides`: QoS by topic.
    """

    def __init__(
        self,
        node: Node,
        bag: Reader,
        topics: Collection[str],
        rate: float,
        clock_rate: float,
        overrides: Mapping[str, QoSProfile],
    ) -> None:
        self._log = node.get_logger()
        self._bag = bag
        self._rate = rate
        self._publishers: dict[str, Publisher] = {}
        for topic in bag.connections:
            if (not topics or topic.topic in topics) and not (clock_rate and topic.topic == "/clock"):
                self._advertise(node, topic, overrides.get(topic.topic))
        if not self._publishers:
            raise VerbError(f"bag '{bag.path}' has no topic to play: see its topics in metadata.yaml")
        self._clock = node.create_publisher(Clock, "/clock", CLOCK_PROFILE) if clock_rate else None
        self._clock_period = 1.0 / clock_rate if clock_rate else float("inf")
        self._start, self._started = bag.start_time, time.monotonic()
        self._next_tick = 0.0

    def play(self) -> None:
        """Publish every message at its time; VerbError where the bag is damaged."""
        connections = [topic for topic in self._bag.connections if topic.topic in self._publishers]
        self._started = time.monotonic()
        for topic, stamp, content in read_messages(self._bag, connections):
            self._wait_until(stamp)
            self._publishers[topic.topic].publish(content)
        time.sleep(ON_THE_WAY)

    def wait_for_all_acked(self, timeout: float) -> None:
        """Wait until every listener has confirmed every message, at most `timeout` seconds."""
        for topic, publisher in self._publishers.items():
            if not publisher.wait_for_all_acked(Duration(seconds=timeout)):
                self._log.warning(f"Not all messages of topic '{topic}' were confirmed within {timeout:g} s.")

    def _advertise(self, node: Node, topic: Connection, profile: QoSProfile | None) -> None:
        try:
            message_class = load_interface(topic.msgtype, "msg")
        except VerbError as error:
            self._log.warning(f"Topic '{topic.topic}' is not played: {error}.")
            return
        if profile is None:
            recorded = topic.ext.offered_qos_profiles if isinstance(topic.ext, ConnectionExtRosbag2) else []
            offered = [_known_policies(qos) for qos in recorded] or [{}]
            if any(other != offered[0] for other in offered):
                self._log.warning(f"The publishers of '{topic.topic}' offered different QoS: it is played as reliable.")
                offered = [{}]
            # How many messages a publisher keeps is not known to those who discover it.
            latched = offered[0].get("durability") == "transient_local"
            profile = profile_from_plain({**offered[0], "depth": LATCHED_DEPTH if latched else PLAYING_DEPTH})
        self._publishers[topic.topic] = node.create_publisher(message_class, topic.topic, profile)

    def _wait_until(self, stamp: int) -> None:
        """Wait for the bag's time `stamp`; meanwhile send /clock."""
        due = self._started + (stamp - self._start) / (SECOND * self._rate)
        while True:
            now = time.monotonic()
            if self._clock is not None and now >= self._next_tick:
                clock = Clock()
                passed = self._start + int((now - self._started) * self._rate * SECOND)
                clock.clock.sec, clock.clock.nanosec = divmod(passed, SECOND)
                self._clock.publish(clock)
                self._next_tick = max(self._next_tick + self._clock_period, now)
            if now >= due:
                return
            time.sleep(min(due, self._next_tick) - now if self._clock is not None else due - now)


def _known_policies(qos: Qos) -> dict[str, Any]:
    policies = {"reliability": qos.reliability, "durability": qos.durability}
    return {key: policy.name.lower() for key, policy in policies.items() if policy.name != "UNKNOWN"}


def profile_from_plain(values: Mapping[str, Any]) -> QoSProfile:
    """Return the profile of a mapping from policies to their names, and to a depth; VerbError if it says nonsense."""
    try:
        named = {key: POLICIES[key].get_from_short_key(value) for key, value in values.items() if key != "depth"}
        return QoSProfile(**{"depth": LATCHED_DEPTH, **values, **named})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise VerbError(f"{values} is no QoS profile of {', '.join(POLICIES)} and depth: {error}") from error


def read_overrides(path: str | None) -> dict[str, QoSProfile]:
    """Return the profiles by topic in a YAML file; VerbError if there is none."""
    if path is None:
        return {}
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return {topic: profile_from_plain(values) for topic, values in (content or {}).items()}
    except (OSError, yaml.YAMLError, AttributeError) as error:
        raise VerbError(f"'{path}' does not give QoS profiles by topic as YAML: {error}") from error
