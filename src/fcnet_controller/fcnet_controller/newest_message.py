"""Keeps the newest message of a topic until it is asked for; no executor is woken by the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription

from fcnet_controller.state_buffer import NEVER

NEWEST_ONLY = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class NewestMessage:
    """The newest message of one topic, kept as it came off the wire until it is stored."""

    def __init__(
        self, node: Node, kind: type, topic: str, store: Callable[[Any, float], None], group: HandledByNoExecutor
    ) -> None:
        self.subscription: Subscription = node.create_subscription(
            kind, topic, lambda _content: None, NEWEST_ONLY, callback_group=group, raw=True
        )
        self._kind = kind
        self._store = store
        self._received = NEVER
        self._content: bytes | None = None

    def store(self, since: float) -> bool:
        """Decode and store what has come, if it was received after `since`; whether the newest message was."""
        with self.subscription.handle:
            taken = self.subscription.handle.take_message(self._kind, True)
        if taken is not None:
            self._content, info = taken
            self._received = _reception(info)
        if self._received < since:
            return False
        if self._content is not None:
            self._store(deserialize_message(self._content, self._kind), self._received)
            self._content = None
        return True


class HandledByNoExecutor(CallbackGroup):
    """The group of subscriptions that are asked, not called back."""

    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        pass


def _reception(info: dict[str, int]) -> float:
    """When the middleware received a message, in monotonic seconds: it tells in time of day."""
    age = (time.time_ns() - info["received_timestamp"]) * 1e-9
    return time.monotonic() - max(age, 0.0)
