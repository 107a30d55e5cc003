"""A subscription that is read when its owner wants to, in the owner's thread.

An executor's callback would run in another thread and compete with the motors' loop for the interpreter; so no executor
handles this subscription: the middleware keeps the newest messages, and the owner takes them.
"""

from __future__ import annotations

from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile


class PolledSubscription:
    """The messages of `kind` on `topic`, for one thread."""

    def __init__(self, node: Node, kind: type[Any], topic: str, qos: QoSProfile) -> None:
        self._kind = kind
        self._subscription = node.create_subscription(
            kind, topic, lambda _message: None, qos, callback_group=_OfNoExecutor()
        )

    def take(self) -> Any | None:
        """The oldest message that is kept and was not taken yet, or None."""
        with self._subscription.handle:
            taken = self._subscription.handle.take_message(self._kind, False)
        return None if taken is None else taken[0]

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        node.destroy_subscription(self._subscription)


class _OfNoExecutor(CallbackGroup):
    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        pass
