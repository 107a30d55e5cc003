"""Receives joint_states and imu/data with as little work per message as can be.

The callbacks only keep the newest message as it came off the wire, for states arrive five to ten times as often as
they are needed; the control loop decodes the one that it uses.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import Imu, JointState

from fcnet_controller.state_buffer import NEVER, StateBuffer


class StateReceiver:
    """Subscriptions to one robot's state."""

    def __init__(self, node: Node) -> None:
        self._joints: tuple[bytes, float] | None = None
        self._imu: tuple[bytes, float] | None = None
        self._joints_decoded = self._imu_decoded = NEVER
        self._arrived = threading.Event()
        self._subscriptions = (
            self._subscribe(node, JointState, "joint_states", self._keep_joints),
            self._subscribe(node, Imu, "imu/data", self._keep_imu),
        )

    def wait_for_state(self, since: float, until: float) -> None:
        """Wait until both parts were received after `since`, but not beyond `until`; both are monotonic seconds."""
        while self._received() < since:
            self._arrived.clear()
            remaining = until - time.monotonic()
            if self._received() >= since or remaining <= 0:
                return
            self._arrived.wait(remaining)

    def decode_into(self, buffer: StateBuffer) -> None:
        """Store the newest messages that are not in `buffer` yet."""
        if self._joints is not None and self._joints[1] != self._joints_decoded:
            content, self._joints_decoded = self._joints
            joints = deserialize_message(content, JointState)
            buffer.store_joints(joints.name, joints.position, joints.velocity, self._joints_decoded)
        if self._imu is not None and self._imu[1] != self._imu_decoded:
            content, self._imu_decoded = self._imu
            imu = deserialize_message(content, Imu)
            attitude, rate = imu.orientation, imu.angular_velocity
            buffer.store_imu(
                (attitude.x, attitude.y, attitude.z, attitude.w), (rate.x, rate.y, rate.z), self._imu_decoded
            )

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        for subscription in self._subscriptions:
            node.destroy_subscription(subscription)

    def _subscribe(self, node: Node, kind: type, topic: str, keep: Any) -> Subscription:
        return node.create_subscription(kind, topic, keep, qos_profile_sensor_data, raw=True)

    def _keep_joints(self, content: bytes, info: dict[str, int]) -> None:
        self._joints = (content, _reception(info))
        self._arrived.set()

    def _keep_imu(self, content: bytes, info: dict[str, int]) -> None:
        self._imu = (content, _reception(info))
        self._arrived.set()

    def _received(self) -> float:
        joints, imu = self._joints, self._imu
        return min(joints[1], imu[1]) if joints is not None and imu is not None else NEVER


def _reception(info: dict[str, int]) -> float:
    """When the middleware received a message, in monotonic seconds: it tells in time of day."""
    queued = (time.time_ns() - info["received_timestamp"]) * 1e-9
    return time.monotonic() - max(queued, 0.0)
