"""The newest measured state of the robot, and subscriptions that are read in their owner's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Time
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import Imu, JointState

from fcnet_core.robot import JOINT_NAMES

# The newest measured state of the robot, with its age, its joints in JOINT_NAMES order.

Array = npt.NDArray[np.float64]
NEVER = float("-inf")
UNIT_TOLERANCE = 0.1  # a quaternion whose length is further from 1 is no orientation


class StateBuffer:
    """Joint state and IMU as last stored. Times are seconds of one monotonic clock.

    joint_position (12,) [rad], joint_velocity (12,) [rad/s], orientation (4,) x, y, z, w, angular_velocity (3,)
    [rad/s] in the body frame. They are meaningful only while `problem` returns None. The stamps are the senders' own
    time [s].
    """

    def __init__(self, timeout: float) -> None:
        self.joint_position: Array = np.zeros(len(JOINT_NAMES))
        self.joint_velocity: Array = np.zeros(len(JOINT_NAMES))
        self.orientation: Array = np.array([0.0, 0.0, 0.0, 1.0])
        self.angular_velocity: Array = np.zeros(3)
        self.joints_received = NEVER
        self.imu_received = NEVER
        self.joints_stamp = 0.0
        self.imu_stamp = 0.0
        self._timeout = timeout
        self._learn([])
        self._wrong_joints = ""

    @property
    def received(self) -> float:
        """When the older of the two parts was received."""
        return min(self.joints_received, self.imu_received)

    def store_joints(
        self,
        names: Sequence[str],
        position: Sequence[float],
        velocity: Sequence[float],
        received: float,
        stamp: float = 0.0,
    ) -> None:
        """Take joint positions [rad] and velocities [rad/s] of joints named in any order; further joints are ignored.

        A message that does not fit is remembered as a problem and changes no value.
        """
        self.joints_received = received
        if names != self._names:
            self._learn(list(names))
        self._wrong_joints = self._misfit(len(position), len(velocity))
        if not self._wrong_joints:
            self.joint_position[:] = np.asarray(position)[self._order]
            self.joint_velocity[:] = np.asarray(velocity)[self._order]
            self.joints_stamp = stamp

    def store_imu(
        self,
        orientation: Sequence[float],
        angular_velocity: Sequence[float],
        received: float,
        stamp: float = 0.0,
    ) -> None:
        """Take an orientation x, y, z, w and an angular velocity [rad/s] in the body frame."""
        self.imu_received = received
        self.imu_stamp = stamp
        self.orientation[:] = orientation
        self.angular_velocity[:] = angular_velocity

    def problem(self, now: float) -> str | None:
        """Why this state must not be used at time `now`, in words; None when it may."""
        for topic, received in (("joint_states", self.joints_received), ("imu/data", self.imu_received)):
            if received == NEVER:
                return f"no message on {topic} yet; start the robot's bridge or the simulator"
            if now - received > self._timeout:
                return f"{topic} is {now - received:.2f} s old, the limit is {self._timeout:g} s; check the bridge"
        return self._wrong_joints or self._not_finite() or self._no_orientation()

    def _learn(self, names: list[str]) -> None:
        self._names = names
        self._order = [names.index(name) for name in JOINT_NAMES if name in names]
        missing = [name for name in JOINT_NAMES if name not in names]
        self._misnamed = f"joint_states lacks {', '.join(missing)}; it names {', '.join(names)}" if missing else ""

    def _misfit(self, positions: int, velocities: int) -> str:
        if self._misnamed:
            return self._misnamed
        for what, count in (("positions", positions), ("velocities", velocities)):
            if count != len(self._names):
                return f"joint_states carries {count} {what} for {len(self._names)} names; publish one for each joint"
        return ""

    def _not_finite(self) -> str | None:
        for what, values in (("position", self.joint_position), ("velocity", self.joint_velocity)):
            finite = np.isfinite(values)
            if not finite.all():
                return f"joint_states: the {what} of {JOINT_NAMES[int(finite.argmin())]} is not a finite number"
        return None

    def _no_orientation(self) -> str | None:
        if not np.isfinite(self.angular_velocity).all():
            return "imu/data: the angular velocity is not a finite number"
        length = float(np.linalg.norm(self.orientation))
        if not abs(length - 1.0) <= UNIT_TOLERANCE:
            return f"imu/data: the orientation is no unit quaternion (its length is {length:.3g})"
        return None


# Keeps the newest message of a topic until it is asked for; no executor is woken by the others.

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


# Receives joint_states and imu/data only when the control loop asks for them.
#
# States arrive five to ten times as often as they are needed. A callback for each would cost a third of a core and
# keep the control thread from the interpreter just when it is in a hurry; so no executor handles these subscriptions:
# the middleware keeps the newest message, and the control thread takes it.

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


# A subscription that is read when its owner wants to, in the owner's thread.
#
# An executor's callback would run in another thread and compete with the motors' loop for the interpreter; so no
# executor handles this subscription: the middleware keeps the newest messages, and the owner takes them.

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
