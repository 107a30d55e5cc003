"""A topic of which every message is taken, as it came off the wire, when the replay gets to it."""

from __future__ import annotations

from rclpy.node import Node
from rclpy.qos import QoSProfile

from fcnet_controller.newest_message import HandledByNoExecutor

QUEUE = 50_000  # messages of a topic that may wait: 10 s of 500 a second at ten times the speed
AT_ONCE = 5000  # of them are taken, so that no topic gets far ahead of the others


class ReplaySubscription:
    """Loses nothing of a reliable publisher; no executor handles it: a callback for each message would be too slow."""

    def __init__(self, node: Node, kind: type, topic: str) -> None:
        self._kind = kind
        self._handle = node.create_subscription(
            kind, topic, lambda _content: None, QoSProfile(depth=QUEUE), callback_group=HandledByNoExecutor(), raw=True
        ).handle

    def take(self) -> list[bytes]:
        """The serialised messages that have come since the last time, the oldest first; the rest waits."""
        taken: list[bytes] = []
        with self._handle:
            while len(taken) < AT_ONCE and (message := self._handle.take_message(self._kind, True)) is not None:
                taken.append(message[0])
        return taken
