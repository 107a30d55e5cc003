"""`ros2 bag record`: takes serialised messages of topics; a thread writes them to the bag."""

import argparse
import datetime
import queue
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import QoSProfile

from . import VerbError, add_command, add_verb
from .bag_writer import COMPRESSIONS, BagWriter, Received, RecordedTopic
from .graph import absolute, graph_node, receiving_profile
from .interfaces import load_interface, message_definition

TAKE_INTERVAL = 0.02  # [s]; the middleware stamps the reception
DISCOVERY_INTERVAL = 0.1  # [s]
MOST_AT_ONCE = 1000  # messages of a topic
RECORDING_DEPTH = 2000  # messages of a topic that may wait while the recorder is kept from running
WRITE_INTERVAL = 0.6  # [s]: with the time to write, a killed recorder has lost less than a second
MOST_WAITING = 100 << 20  # bytes of messages that may wait for the disk
SECOND = 1_000_000_000  # [ns]


class WriterThread:
    """Writes topics and messages of another thread to a bag, regularly; a slow disk never blocks that thread."""

    def __init__(self, bag: BagWriter) -> None:
        self.error: OSError | None = None
        self._bag = bag
        self._waiting: queue.SimpleQueue[RecordedTopic | list[Received]] = queue.SimpleQueue()
        self._taken = self._written = 0  # bytes; each is counted by one thread
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bag_writer", daemon=True)
        self._thread.start()

    def add_topic(self, topic: RecordedTopic) -> None:
        """Make a topic known; before its first message."""
        self._waiting.put(topic)

    def add(self, messages: list[Received]) -> bool:
        """Hand over messages; return whether there was room for them."""
        size, waiting = _size(messages), self._taken - self._written
        if waiting and waiting + size > MOST_WAITING:
            return False
        self._taken += size
        self._waiting.put(messages)
        return True

    def finish(self) -> None:
        """Write all messages handed over and end the bag; a failure is in `error`."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            try:
                while not self._ended.wait(WRITE_INTERVAL):
                    self._write()
                self._write()
            finally:
                self._bag.close()
        except OSError as error:
            self.error = error

    def _write(self) -> None:
        messages: list[Received] = []
        for _ in range(self._waiting.qsize()):
            taken = self._waiting.get()
            if isinstance(taken, RecordedTopic):
                self._bag.add_topic(taken)
            else:
                messages += taken
        if messages:
            self._bag.write(messages)
            self._written += _size(messages)


def _size(messages: list[Received]) -> int:
    return sum(len(content) for *_, content in messages)


class Recorder:
    """Hands all messages of the chosen topics to a writer.

    The node is in no executor: a callback for every message would be too slow.
    """

    def __init__(self, node: Node, writer: WriterThread, names: set[str], takes_all: bool) -> None:
        self.subscriptions: dict[str, tuple[Any, type] | None] = {}  # None: the topic is refused
        self.overflowed = 0  # messages dropped because the disk is too slow
        self._node, self._log, self._writer = node, node.get_logger(), writer
        self._names, self._takes_all = names, takes_all

    def record(self, stops: list[int]) -> None:
        """Record until `stops` has an entry or the writer has failed."""
        next_discovery = 0.0
        while not stops and self._writer.error is None:
            if time.monotonic() >= next_discovery:
                for name, kinds in self._node.get_topic_names_and_types():
                    chosen = name in self._names or (self._takes_all and "/_" not in name)
                    if name not in self.subscriptions and chosen and self._node.count_publishers(name):
                        self.subscriptions[name] = self._subscribe(name, kinds)
                next_discovery = time.monotonic() + DISCOVERY_INTERVAL
            self._take()
            time.sleep(TAKE_INTERVAL)
        self._take()

    def _take(self) -> None:
        messages: list[Received] = []
        for topic, subscription in self.subscriptions.items():
            if subscription is None:
                continue
            handle, message_class = subscription
            most = len(messages) + MOST_AT_ONCE
            with handle:
                while len(messages) < most and (taken := handle.take_message(message_class, True)) is not None:
                    content, info = taken
                    messages.append((topic, info["received_timestamp"], info["source_timestamp"], content))
        if messages and not self._writer.add(messages):
            if not self.overflowed:
                self._log.warning("The disk is too slow: messages are dropped until it has caught up.")
            self.overflowed += len(messages)

    def _subscribe(self, name: str, kinds: list[str]) -> tuple[Any, type] | None:
        try:
            if len(kinds) > 1:
                raise VerbError(f"it has several types ({', '.join(kinds)})")
            message_class = load_interface(kinds[0], "msg")
        except VerbError as error:
            self._log.warning(f"Topic '{name}' is not recorded: {error}.")
            return None
        offered = [info.qos_profile for info in self._node.get_publishers_info_by_topic(name)]
        definition, type_hash = message_definition(kinds[0])
        self._writer.add_topic(RecordedTopic(name, kinds[0], type_hash, list(map(_plain, offered)), definition))
        profile = receiving_profile(offered, RECORDING_DEPTH)
        subscription = self._node.create_subscription(message_class, name, lambda _content: None, profile, raw=True)
        self._log.info(f"Subscribed to topic '{name}'")
        return subscription.handle, message_class


def _plain(profile: QoSProfile) -> dict[str, Any]:
    """Return the profile as metadata.yaml has it."""
    facts: dict[str, Any] = {}
    for slot in profile.__slots__:
        value = getattr(profile, slot)
        if isinstance(value, Duration):
            seconds, rest = divmod(value.nanoseconds, SECOND)
            value = {"sec": seconds, "nsec": rest}
        facts[slot.lstrip("_")] = getattr(value, "short_key", value)
    return facts


def _record(arguments: argparse.Namespace) -> int:
    """Record until SIGINT or SIGTERM."""
    names = set(map(absolute, arguments.topics))
    if not (arguments.all or names):
        raise VerbError("no topics to record: name some, or give --all")
    folder = Path(arguments.output or datetime.datetime.now().strftime("rosbag2_%Y_%m_%d-%H_%M_%S"))
    compression = COMPRESSIONS[arguments.storage_preset_profile]
    try:
        bag = BagWriter(folder, compression, arguments.max_bag_duration * SECOND, dict(arguments.custom_data))
    except FileExistsError as error:
        raise VerbError(f"output folder '{folder}' already exists: name another with -o") from error
    except OSError as error:
        raise VerbError(f"cannot create the bag '{folder}': {error.strerror}") from error
    stops: list[int] = []  # an Event's lock would be held when a second signal comes in the handler of the first
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda stop, _: stops.append(stop))
    writer = WriterThread(bag)
    try:
        with graph_node("rosbag2_recorder") as node:
            log = node.get_logger()
            recorder = Recorder(node, writer, names, arguments.all)
            log.info("Recording...")
            recorder.record(stops)
            for name in sorted(name for name in names if not recorder.subscriptions.get(name)):
                log.warning(f"Topic '{name}' was not recorded: it never appeared, or for the reason above.")
            writer.finish()
            if writer.error is None:
                found = f"{bag.count} messages of {len(bag.topics)} topics"
                log.info(f"Recorded {found} in '{folder}', dropped {recorder.overflowed}")
    finally:
        writer.finish()
    if writer.error is not None:
        reason = writer.error.strerror or str(writer.error)
        left = f"{shutil.disk_usage(folder.parent).free / 1e6:.2f} MB left there"
        written = f"the {bag.count} messages written before are readable; make room before the next recording"
        raise VerbError(f"recording to '{folder}' has stopped: {reason}, {left}; {written}")
    return 0


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key, value


def add_commands(commands: Any) -> None:
    """Add `bag`."""
    verb = add_verb(add_command(commands, "bag"), "record", _record, "Record topics to a bag.")
    verb.add_argument("-o", "--output", help="the bag's folder, which must not exist (rosbag2_<date and time>)")
    verb.add_argument("-s", "--storage", choices=("mcap",), default="mcap", help="the kind of file: mcap")
    verb.add_argument("topics", nargs="*", default=[], metavar="topic", help="topics to record")
    verb.add_argument("-a", "--all", action="store_true", help="record all topics")
    verb.add_argument("-d", "--max-bag-duration", type=int, default=0, metavar="S", help="start a new file after S s")
    verb.add_argument("--custom-data", type=_pair, nargs="*", default=[], metavar="KEY=VALUE", help="to metadata.yaml")
    verb.add_argument("--storage-preset-profile", choices=tuple(COMPRESSIONS), default="none", help="compression")
    verb.add_argument("--disable-keyboard-controls", action="store_true", help="no change: keys do nothing here")
