"""Receives joint_states and imu/data only when the control loop asks for them.

States arrive five to ten times as often as they are needed. A callback for each would cost a third of a core and keep
the control thread from the interpreter just when it is in a hurry; so no executor handles these subscriptions: the
middleware keeps the newest message, and the control thread takes it.
"""

from __future__ import annotations

import time
from functools import partial

from builtin_interfaces.msg import Time
from rclpy.node import Node
from sensor_msgs.msg import Imu, JointState

from fcnet_controller.newest_message import HandledByNoExecutor, NewestMessage
from fcnet_controller.state_buffer import NEVER, StateBuffer

POLL_INTERVAL = 0.0001  # [s]


class StateReceiver:
    """Subscriptions to one robot's state, which fill `buffer`; used by one thread."""

    def __init__(self, node: Node, buffer: StateBuffer) -> None:
        group = HandledByNoExecutor()
        self._parts = (
            NewestMessage(node, Imu, "imu/data", partial(store_imu, buffer), group),
            NewestMessage(node, JointState, "joint_states", partial(store_joints, buffer), group),
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


def store_joints(buffer: StateBuffer, joints: JointState, received: float) -> None:
    """Put a message into the buffer; `received` in monotonic seconds."""
    buffer.store_joints(joints.name, joints.position, joints.velocity, received, seconds(joints.header.stamp))


def store_imu(buffer: StateBuffer, imu: Imu, received: float) -> None:
    """Put a message into the buffer; `received` in monotonic seconds."""
    attitude, rate = imu.orientation, imu.angular_velocity
    orientation, angular_velocity = (attitude.x, attitude.y, attitude.z, attitude.w), (rate.x, rate.y, rate.z)
    buffer.store_imu(orientation, angular_velocity, received, seconds(imu.header.stamp))


def seconds(stamp: Time) -> float:
    """A message's stamp as a number."""
    return stamp.sec + 1e-9 * stamp.nanosec
