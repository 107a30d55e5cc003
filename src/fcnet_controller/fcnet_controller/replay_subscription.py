"""A topic of which every message is taken, as it came off the wire, when the replay gets to it."""

from __future__ import annotations

from rclpy.node import Node
from rclpy.qos import QoSProfile

from fcnet_controller.newest_message import HandledByNoExecutor

QUEUE = 5000  # messages of a topic that may wait: 1 s of 500 a second at ten times the speed


class ReplaySubscription:
    """Loses nothing of a reliable publisher; no executor handles it: a callback for each message would be too slow."""

    def __init__(self, node: Node, kind: type, topic: str) -> None:
        self._kind = kind
        self._subscription = node.create_subscription(
            kind, topic, lambda _content: None, QoSProfile(depth=QUEUE), callback_group=HandledByNoExecutor(), raw=True
        )

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        node.destroy_subscription(self._subscription)

    def take(self) -> list[bytes]:
        """The serialised messages that have come since the last time."""
        taken: list[bytes] = []
        handle = self._subscription.handle
        with handle:
            while len(taken) < QUEUE and (message := handle.take_message(self._kind, True)) is not None:
                taken.append(message[0])
        return taken
