"""A subscription whose messages are taken as they came off the wire, many at once."""

from __future__ import annotations

from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile

from .bag_writer import Received
from .loss_counter import LossCounter

MOST_AT_ONCE = 1000


class RecordedSubscription:
    """Receives one topic; no executor handles it: a callback for every message would be too slow."""

    def __init__(self, node: Node, message_class: type, topic: str, profile: QoSProfile) -> None:
        self.topic = topic
        self.profile = profile
        self.losses = LossCounter()
        self._class = message_class
        self._handle = node.create_subscription(
            message_class, topic, _ignore, profile, callback_group=_HandledByNoExecutor(), raw=True
        ).handle

    def take(self) -> list[Received]:
        """Return what has come since the last time, at most MOST_AT_ONCE messages."""
        taken: list[Received] = []
        with self._handle:
            while len(taken) < MOST_AT_ONCE:
                message = self._handle.take_message(self._class, True)
                if message is None:
                    break
                content, info = message
                taken.append((self.topic, info["received_timestamp"], info["source_timestamp"], content))
                if info["publication_sequence_number"] is not None:
                    self.losses.hear(info["publication_sequence_number"])
        return taken


def _ignore(_content: bytes) -> None:
    """Do nothing: the messages are taken."""


class _HandledByNoExecutor(CallbackGroup):
    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        pass
