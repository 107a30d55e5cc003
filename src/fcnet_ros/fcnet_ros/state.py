"""The state of the robot as messages: the newest one received, with its checks, and a publisher."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Quaternion, Vector3
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Imu, JointState

from fcnet_core.arrays import Array
from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.hardware import SensorReading, TrunkPose
from fcnet_ros.topics import IMU, JOINT_STATES, NEWEST, ODOM, PolledSubscription, Topic

NEVER = float("-inf")
UNIT_TOLERANCE = 0.1  # a quaternion whose length is further from 1 is no orientation
POLL_INTERVAL = 0.0001  # [s]
IMU_FRAME, WORLD_FRAME, TRUNK_FRAME = "imu_link", "odom", "base_link"


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
        self._read_names([])
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
            self._read_names(list(names))
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

    def _read_names(self, names: list[str]) -> None:
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


class NewestMessage:
    """The newest message of one topic, kept serialised until it is stored by `store(message, received)`."""

    def __init__(self, node: Node, topic: Topic, store: Callable[[Any, float], None]) -> None:
        self._subscription = PolledSubscription(node, replace(topic, requested=NEWEST), raw=True)
        self._kind = topic.kind
        self._store = store
        self._received = NEVER
        self._content: bytes | None = None

    def store(self, since: float) -> bool:
        """Decode and store what has come, if it was received after `since`; return whether the newest message was."""
        if (taken := self._subscription.take()) is not None:
            self._content, self._received = taken
        if self._received < since:
            return False
        if self._content is not None:
            self._store(deserialize_message(self._content, self._kind), self._received)
            self._content = None
        return True

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        self._subscription.destroy(node)


class StateReceiver:
    """Subscriptions to one robot's state, which fill `buffer`; used by one thread."""

    def __init__(self, node: Node, buffer: StateBuffer) -> None:
        self._parts = (
            NewestMessage(node, IMU, partial(store_imu, buffer)),
            NewestMessage(node, JOINT_STATES, partial(store_joints, buffer)),
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
            part.destroy(node)


def store_joints(buffer: StateBuffer, joints: JointState, received: float) -> None:
    """Put a message into the buffer; `received` in monotonic seconds."""
    buffer.store_joints(joints.name, joints.position, joints.velocity, received, seconds(joints.header.stamp))


def store_imu(buffer: StateBuffer, imu: Imu, received: float) -> None:
    """Put a message into the buffer; `received` in monotonic seconds."""
    attitude, rate = imu.orientation, imu.angular_velocity
    orientation, angular_velocity = (attitude.x, attitude.y, attitude.z, attitude.w), (rate.x, rate.y, rate.z)
    buffer.store_imu(orientation, angular_velocity, received, seconds(imu.header.stamp))


def seconds(stamp: Time) -> float:
    """Return a message's stamp as a number [s]."""
    return stamp.sec + 1e-9 * stamp.nanosec


class StatePublisher:
    """joint_states and imu/data of one robot. The messages are made once and filled again, by one thread at a time."""

    def __init__(self, node: Node) -> None:
        self._joints_publisher, self._imu_publisher = JOINT_STATES.publisher(node), IMU.publisher(node)
        self._joints = JointState(name=list(JOINT_NAMES))
        self._imu = Imu()
        self._imu.header.frame_id = IMU_FRAME

    def publish(self, reading: SensorReading, stamp: Time) -> None:
        """Publish a state that was measured at `stamp`."""
        imu, joints = self._imu, self._joints
        imu.header.stamp = joints.header.stamp = stamp
        fill_quaternion(imu.orientation, reading.orientation)
        _fill_vector(imu.angular_velocity, reading.angular_velocity)
        _fill_vector(imu.linear_acceleration, reading.linear_acceleration)
        joints.position = _doubles(reading.position)
        joints.velocity = _doubles(reading.velocity)
        joints.effort = _doubles(reading.torque)
        self._imu_publisher.publish(imu)
        self._joints_publisher.publish(joints)

    def destroy(self, node: Node) -> None:
        """Stop publishing."""
        node.destroy_publisher(self._joints_publisher)
        node.destroy_publisher(self._imu_publisher)


class OdomPublisher:
    """odom of one simulated robot; the message is made once and filled again."""

    def __init__(self, node: Node) -> None:
        self._publisher = ODOM.publisher(node)
        self._odom = Odometry(child_frame_id=TRUNK_FRAME)
        self._odom.header.frame_id = WORLD_FRAME

    def publish(self, trunk: TrunkPose, stamp: Time) -> None:
        """Publish where the trunk was at `stamp`."""
        self._odom.header.stamp = stamp
        pose, motion = self._odom.pose.pose, self._odom.twist.twist
        pose.position.x, pose.position.y, pose.position.z = trunk.position.tolist()
        fill_quaternion(pose.orientation, trunk.orientation)
        _fill_vector(motion.linear, trunk.linear_velocity)
        _fill_vector(motion.angular, trunk.angular_velocity)
        self._publisher.publish(self._odom)

    def destroy(self, node: Node) -> None:
        """Stop publishing."""
        node.destroy_publisher(self._publisher)


def _doubles(values: Array) -> array[float]:
    return array("d", values.tobytes())


def _fill_vector(vector: Vector3, values: Array) -> None:
    vector.x, vector.y, vector.z = values.tolist()


def fill_quaternion(quaternion: Quaternion, xyzw: Array) -> None:
    """Set x, y, z, w from values (4,) in this order."""
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = xyzw.tolist()
