"""Records topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rclpy.node import Node
from rclpy.qos import QoSProfile

from ..interface_type import load_interface
from ..verb_error import VerbError
from .keyboard import SPACE, Keyboard
from .message_definition import message_definition, type_hash
from .recorded_qos import profile_as_plain, recording_profile, takes_from
from .recorded_subscription import RecordedSubscription
from .recorded_topic import RecordedTopic
from .topic_choice import TopicChoice
from .writer_thread import WriterThread

TAKE_INTERVAL = 0.02  # [s]; when a message was received is the middleware's to tell


@dataclass(frozen=True)
class RecordOptions:
    """What to record, and how."""

    choice: TopicChoice
    discover: bool = True  # also topics that appear later
    discovery_interval: float = 0.1  # [s]
    unpublished: bool = False  # also topics without a publisher
    paused: bool = False
    overrides: dict[str, QoSProfile] = field(default_factory=dict)


class Recorder:
    """Hands all messages of the chosen topics to a writer; used by one thread."""

    def __init__(self, node: Node, writer: WriterThread, options: RecordOptions) -> None:
        self.subscriptions: dict[str, RecordedSubscription] = {}
        self.overflowed = 0  # messages dropped because the disk is too slow
        self._node = node
        self._log = node.get_logger()
        self._writer = writer
        self._options = options
        self._paused = options.paused
        self._refused: set[str] = set()
        self._publishers: dict[str, int] = {}

    @property
    def lost(self) -> int:
        """How many messages were sent and are not in the bag."""
        return self.overflowed + sum(subscription.losses.lost for subscription in self.subscriptions.values())

    def missing(self) -> list[str]:
        """Return the topics that were named and have not been found."""
        return [name for name in self._options.choice.names if name not in self.subscriptions]

    def discover(self) -> None:
        """Subscribe to the chosen topics that have appeared, and look at the publishers of the others."""
        for name, kinds in self._node.get_topic_names_and_types():
            publishers = self._node.count_publishers(name)
            if name in self.subscriptions:
                self._note_publishers(name, publishers)
            elif (publishers or self._options.unpublished) and self._options.choice.takes(name, kinds[0]):
                self._subscribe(name, kinds)

    def record(self, stopped: Callable[[], bool], keyboard: Keyboard) -> None:
        """Record until `stopped()` or until the writer has failed."""
        next_discovery = 0.0
        while not stopped() and self._writer.error is None:
            if self._options.discover and time.monotonic() >= next_discovery:
                self.discover()
                next_discovery = time.monotonic() + self._options.discovery_interval
            self.take()
            if keyboard.wait(TAKE_INTERVAL) == SPACE:
                self._paused = not self._paused
                self._log.info("Pausing recording." if self._paused else "Resuming recording.")
        self.take()

    def take(self) -> None:
        """Hand over what has arrived; while paused it is dropped."""
        messages = [message for subscription in self.subscriptions.values() for message in subscription.take()]
        if messages and not self._paused and not self._writer.add(messages):
            if not self.overflowed:
                self._log.warning("The disk is too slow: messages are dropped until it has caught up.")
            self.overflowed += len(messages)

    def _subscribe(self, name: str, kinds: list[str]) -> None:
        if name in self._refused:
            return
        if len(kinds) > 1:
            self._refuse(name, f"Topic '{name}' has several types ({', '.join(kinds)}) and is not recorded.")
            return
        try:
            message_class = load_interface(kinds[0], "msg")
        except VerbError as error:
            self._refuse(name, f"Topic '{name}' is not recorded: {error}.")
            return
        offered = [info.qos_profile for info in self._node.get_publishers_info_by_topic(name)]
        profile = self._options.overrides.get(name) or recording_profile(offered)
        self._writer.add_topic(_described(name, kinds[0], offered))
        self.subscriptions[name] = RecordedSubscription(self._node, message_class, name, profile)
        self._note_publishers(name, len(offered))
        self._log.info(f"Subscribed to topic '{name}'")

    def _refuse(self, name: str, sentence: str) -> None:
        self._refused.add(name)
        self._log.warning(sentence)

    def _note_publishers(self, name: str, count: int) -> None:
        if count == self._publishers.get(name):
            return
        self._publishers[name] = count
        subscription = self.subscriptions[name]
        subscription.losses.publishers = max(count, subscription.losses.publishers)
        others = self._node.get_publishers_info_by_topic(name)
        deaf = [info for info in others if not takes_from(subscription.profile, info.qos_profile)]
        if deaf and name not in self._refused:
            names = ", ".join(sorted(f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in deaf))
            self._refuse(
                name, f"Messages of {names} on '{name}' are not recorded: what it offers is less than the others."
            )


def _described(name: str, kind: str, offered: list[QoSProfile]) -> RecordedTopic:
    encoding, definition = message_definition(kind)
    profiles = tuple(profile_as_plain(profile) for profile in offered)
    return RecordedTopic(name, kind, type_hash(kind), profiles, definition, encoding)
