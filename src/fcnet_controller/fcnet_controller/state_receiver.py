"""Receives joint_states and imu/data only when the control loop asks for them.

States arrive five to ten times as often as they are needed. A callback for each would cost a third of a core and keep
the control thread from the interpreter just when it is in a hurry; so no executor handles these subscriptions: the
middleware keeps the newest message, and the control thread takes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from builtin_interfaces.msg import Time
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import Imu, JointState

from fcnet_controller.state_buffer import NEVER, StateBuffer

POLL_INTERVAL = 0.0001  # [s]
NEWEST_ONLY = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class StateReceiver:
    """Subscriptions to one robot's state, which fill `buffer`; used by one thread."""

    def __init__(self, node: Node, buffer: StateBuffer) -> None:
        group = _HandledByNoExecutor()
        self._buffer = buffer
        self._parts = (
            _Newest(node, Imu, "imu/data", self._store_imu, group),
            _Newest(node, JointState, "joint_states", self._store_joints, group),
        )

    def receive(self, since: float, until: float) -> None:
        """Store the newest state, waiting for one received after `since`, but not beyond `until` (monotonic seconds).

        The part that comes first is decoded while the other is on its way.
        """
        while not all(part.store(since) for part in self._parts) and time.monotonic() < until:
            time.sleep(POLL_INTERVAL)
        for part in self._parts:
            part.store(NEVER)

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        for part in self._parts:
            node.destroy_subscription(part.subscription)

    def _store_joints(self, joints: JointState, received: float) -> None:
        self._buffer.store_joints(joints.name, joints.position, joints.velocity, received, seconds(joints.header.stamp))

    def _store_imu(self, imu: Imu, received: float) -> None:
        attitude, rate = imu.orientation, imu.angular_velocity
        orientation, angular_velocity = (attitude.x, attitude.y, attitude.z, attitude.w), (rate.x, rate.y, rate.z)
        self._buffer.store_imu(orientation, angular_velocity, received, seconds(imu.header.stamp))


class _Newest:
    """The newest message of one topic, kept as it came off the wire until it is stored."""

    def __init__(
        self, node: Node, kind: type, topic: str, store: Callable[[Any, float], None], group: CallbackGroup
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


class _HandledByNoExecutor(CallbackGroup):
    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        pass


def seconds(stamp: Time) -> float:
    """A message's stamp as a number."""
    return stamp.sec + 1e-9 * stamp.nanosec


def _reception(info: dict[str, int]) -> float:
    """When the middleware received a message, in monotonic seconds: it tells in time of day."""
    age = (time.time_ns() - info["received_timestamp"]) * 1e-9
    return time.monotonic() - max(age, 0.0)
