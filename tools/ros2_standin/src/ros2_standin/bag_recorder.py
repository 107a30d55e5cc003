"""Records topics: takes serialised messages and hands them to a thread that writes the bag."""

from __future__ import annotations

import importlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import QoSProfile

from . import VerbError
from .bag_writer import BagWriter, Received, RecordedTopic
from .graph import receiving_profile
from .interfaces import load_interface, message_definition

TAKE_INTERVAL = 0.02  # [s]; the middleware stamps the reception
DISCOVERY_INTERVAL = 0.1  # [s]
MOST_AT_ONCE = 1000  # messages of a topic
RECORDING_DEPTH = 2000  # messages of a topic that may wait while the recorder is kept from running
COMMON_PACKAGES = ("std_msgs", "geometry_msgs", "sensor_msgs", "trajectory_msgs")  # whose messages most robots have
FLUSH_INTERVAL = 0.6  # [s]: with the time to write, a killed recorder has lost less than a second
MOST_WAITING = 100 << 20  # bytes of messages that may wait for the disk
SECOND = 1_000_000_000  # [ns]


class RecordedSubscription:
    """Receives one topic; its node is in no executor: a callback for every message would be too slow."""

    def __init__(self, node: Node, message_class: type, topic: str, profile: QoSProfile) -> None:
        self.topic = topic
        self._class = message_class
        self._handle = node.create_subscription(message_class, topic, lambda _content: None, profile, raw=True).handle

    def take(self) -> list[Received]:
        """Return the messages since the last call, at most MOST_AT_ONCE."""
        taken: list[Received] = []
        with self._handle:
            while len(taken) < MOST_AT_ONCE and (message := self._handle.take_message(self._class, True)) is not None:
                content, info = message
                taken.append((self.topic, info["received_timestamp"], info["source_timestamp"], content))
        return taken


class WriterThread:
    """Writes the messages of another thread to a bag and flushes it regularly; a slow disk never blocks that thread."""

    def __init__(self, bag: BagWriter) -> None:
        self.error: OSError | None = None
        self.bag = bag
        self._waiting = 0  # bytes
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[RecordedTopic | Sequence[Received] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="bag_writer", daemon=True)
        self._thread.start()

    def add_topic(self, topic: RecordedTopic) -> None:
        """Make a topic known; before its first message."""
        self._queue.put(topic)

    def add(self, messages: Sequence[Received]) -> bool:
        """Hand over messages; return whether there was room for them."""
        size = _size(messages)
        with self._lock:
            if self._waiting and self._waiting + size > MOST_WAITING:
                return False
            self._waiting += size
        self._queue.put(messages)
        return True

    def finish(self) -> None:
        """Write all messages handed over and end the bag; a failure is in `error`."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._write()
        except OSError as error:
            self.error = error
        try:
            self.bag.close()
        except OSError as error:
            self.error = self.error or error

    def _write(self) -> None:
        flushed = time.monotonic()
        while True:
            try:
                item = self._queue.get(timeout=max(0.0, flushed + FLUSH_INTERVAL - time.monotonic()))
            except queue.Empty:
                item = ()
            if item is None:
                return
            if isinstance(item, RecordedTopic):
                self.bag.add_topic(item)
            else:
                self.bag.add(item)
                with self._lock:
                    self._waiting -= _size(item)
            if time.monotonic() >= flushed + FLUSH_INTERVAL:
                self.bag.flush()
                flushed = time.monotonic()


def _size(messages: Sequence[Received]) -> int:
    return sum(len(message[3]) for message in messages)


class Recorder:
    """Hands all messages of the chosen topics to a writer; used by one thread."""

    def __init__(self, node: Node, writer: WriterThread, chosen: Callable[[str], bool]) -> None:
        self.subscriptions: dict[str, RecordedSubscription] = {}
        self.overflowed = 0  # messages dropped because the disk is too slow
        self._node = node
        self._log = node.get_logger()
        self._writer = writer
        self._chosen = chosen
        self._refused: set[str] = set()
        for package in COMMON_PACKAGES:  # 0.1 s each, which discovery takes anyway
            with suppress(ImportError):
                importlib.import_module(f"{package}.msg")

    def record(self, stopped: Callable[[], bool]) -> None:
        """Record until `stopped()` or until the writer has failed."""
        next_discovery = 0.0
        while not stopped() and self._writer.error is None:
            if time.monotonic() >= next_discovery:
                self._discover()
                next_discovery = time.monotonic() + DISCOVERY_INTERVAL
            self._take()
            time.sleep(TAKE_INTERVAL)
        self._take()

    def _discover(self) -> None:
        """Subscribe to the chosen topics that have appeared."""
        for name, kinds in self._node.get_topic_names_and_types():
            known = name in self.subscriptions or name in self._refused
            if not known and self._chosen(name) and self._node.count_publishers(name):
                self._subscribe(name, kinds)

    def _take(self) -> None:
        messages = [message for subscription in self.subscriptions.values() for message in subscription.take()]
        if messages and not self._writer.add(messages):
            if not self.overflowed:
                self._log.warning("The disk is too slow: messages are dropped until it has caught up.")
            self.overflowed += len(messages)

    def _subscribe(self, name: str, kinds: list[str]) -> None:
        if len(kinds) > 1:
            self._refuse(name, f"Topic '{name}' has several types ({', '.join(kinds)}) and is not recorded.")
            return
        try:
            message_class = load_interface(kinds[0], "msg")
        except VerbError as error:
            self._refuse(name, f"Topic '{name}' is not recorded: {error}.")
            return
        offered = [info.qos_profile for info in self._node.get_publishers_info_by_topic(name)]
        definition, type_hash = message_definition(kinds[0])
        profiles = tuple(_profile_as_plain(profile) for profile in offered)
        self._writer.add_topic(RecordedTopic(name, kinds[0], type_hash, profiles, definition))
        profile = receiving_profile(offered, RECORDING_DEPTH)
        self.subscriptions[name] = RecordedSubscription(self._node, message_class, name, profile)
        self._log.info(f"Subscribed to topic '{name}'")

    def _refuse(self, name: str, sentence: str) -> None:
        self._refused.add(name)
        self._log.warning(sentence)


def _profile_as_plain(profile: QoSProfile) -> dict[str, Any]:
    """Return the profile as metadata.yaml has it."""

    def duration(value: Duration) -> dict[str, int]:
        seconds, rest = divmod(value.nanoseconds, SECOND)
        return {"sec": seconds, "nsec": rest}

    return {
        "history": profile.history.short_key,
        "depth": profile.depth,
        "reliability": profile.reliability.short_key,
        "durability": profile.durability.short_key,
        "deadline": duration(profile.deadline),
        "lifespan": duration(profile.lifespan),
        "liveliness_lease_duration": duration(profile.liveliness_lease_duration),
        "liveliness": profile.liveliness.short_key,
        "avoid_ros_namespace_conventions": bool(profile.avoid_ros_namespace_conventions),
    }
