"""The messages that robot and controller exchange: state, odometry, joint targets and gains, written and read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Quaternion, TransformStamped, Vector3
from msgspec import Meta
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import PointCloud2, PointField

from fcnet_core.arrays import Array
from fcnet_core.control.timing import NEVER, TIME_OF_DAY
from fcnet_core.errors import MessageError
from fcnet_core.names import BASE_FRAME, IMU_FRAME, SECOND, WORLD_FRAME
from fcnet_core.observation import SensorReading, TrunkPose
from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.serialized import (
    JointMessageReader,
    JointsBuffer,
    JointsMessage,
    imu_buffer,
    read_imu,
    read_text,
    seconds,
)
from fcnet_ros.topics import IMU, JOINT_STATES, NEWEST, ODOM, TF, PolledSubscription, Topic

UNIT_TOLERANCE = 0.1  # by which the length of an orientation may differ from 1
POLL_INTERVAL = 0.0001  # [s]
LONGEST_SLEEP = 0.001  # [s] between two polls for a state, as states may come more often than before
EARLY = 0.9  # polling for the next state starts after this fraction of the interval between states
SMOOTHING = 0.1  # weight of a new interval
TF_PERIOD = SECOND // 50  # [ns] between two transforms, which RViz and Foxglove interpolate
AXES, FLOAT = ("x", "y", "z"), np.dtype("<f4")  # of the points of `terrain`
MAX_POINTS = 20_000  # of `terrain`
MAX_GAINS_TEXT = 4096  # [bytes] of joint_gains; the suite's have 0.7 kB


def fill_quaternion(quaternion: Quaternion, xyzw: Array) -> None:
    """Set x, y, z, w from values (4,) in this order."""
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = xyzw.tolist()


def _fill_vector(vector: Vector3, values: Array) -> None:
    vector.x, vector.y, vector.z = values.tolist()


class StateBuffer:
    """The newest joint state and IMU. Times are seconds of one monotonic clock, or simulated time: a message then
    counts as received at its stamp, and a stamp in wall-clock time is a problem.

    joint_position (12,) [rad], joint_velocity (12,) [rad/s], orientation (4,) x, y, z, w, angular_velocity (3,) [rad/s]
    in the body frame; valid only if `problem` returns None. joint_effort (12,) [Nm], NaN if it is not measured. Stamps
    [s] are in the sender's time.
    """

    def __init__(self, timeout: float, simulated_time: bool = False) -> None:
        self._simulated_time = simulated_time
        self._values: Array = np.zeros(2 * len(JOINT_NAMES) + 7)  # the first four arrays, one after the other
        self.joint_position, self.joint_velocity, self.orientation, self.angular_velocity = np.split(
            self._values, np.cumsum([len(JOINT_NAMES), len(JOINT_NAMES), 4])
        )
        self.joint_effort: Array = np.full(len(JOINT_NAMES), np.nan)
        self.joints_received = self.imu_received = NEVER
        self.joints_stamp = self.imu_stamp = 0.0
        self._timeout = timeout
        self._joints_reader = JointMessageReader()
        self._read_names(())
        self._wrong_joints = self._wrong_imu = ""

    @property
    def received(self) -> float:
        """When the older of the two parts was received."""
        return min(self.joints_received, self.imu_received)

    def store_joints(self, content: bytes, received: float) -> None:
        """Store a serialised JointState with joints in any order; other joints are ignored.

        An invalid message changes no value and becomes a problem.
        """
        self.joints_received = received
        try:
            joints = self._joints_reader.read_joints(content)
        except MessageError as error:
            self._wrong_joints = f"joint_states: {error}"
            return
        if joints.names is not self._names:
            self._read_names(joints.names)
        self._wrong_joints = self._misnamed or _misfit(joints)
        if not self._wrong_joints:
            self.joint_position[:] = joints.position[self._order]
            self.joint_velocity[:] = joints.velocity[self._order]
            self.joint_effort[:] = joints.effort[self._order] if len(joints.effort) == len(joints.names) else np.nan
            self.joints_stamp = seconds(joints.stamp)
            if self._simulated_time:
                self.joints_received, self._wrong_joints = self.joints_stamp, _time_of_day(JOINT_STATES, joints.stamp)

    def store_imu(self, content: bytes, received: float) -> None:
        """Store a serialised Imu. An invalid message changes no value and becomes a problem."""
        self.imu_received = received
        try:
            imu = read_imu(content)
        except MessageError as error:
            self._wrong_imu = f"imu/data: {error}"
            return
        self._wrong_imu = ""
        self.imu_stamp = seconds(imu.stamp)
        if self._simulated_time:
            self.imu_received, self._wrong_imu = self.imu_stamp, _time_of_day(IMU, imu.stamp)
        self.orientation[:] = imu.orientation
        self.angular_velocity[:] = imu.angular_velocity

    def problem(self, now: float) -> str | None:
        """Return why this state must not be used at time `now`; None if it may."""
        for topic, received in ((JOINT_STATES.name, self.joints_received), (IMU.name, self.imu_received)):
            if received == NEVER:
                return f"no message on {topic} yet; start the robot's bridge or the simulator"
            if now - received > self._timeout:
                return f"{topic} is {now - received:.2f} s old, the limit is {self._timeout:g} s; check the bridge"
        return self._wrong_joints or self._wrong_imu or self._not_finite() or self._no_orientation()

    def _read_names(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._order: slice | list[int] = slice(None)  # no copy if they are in JOINT_NAMES order
        if names != JOINT_NAMES:
            self._order = [names.index(name) for name in JOINT_NAMES if name in names]
        missing = [name for name in JOINT_NAMES if name not in names]
        self._misnamed = f"joint_states lacks {', '.join(missing)}; it names {', '.join(names)}" if missing else ""

    def _not_finite(self) -> str | None:
        if math.isfinite(self._values.dot(self._values)):  # ten times as fast as isfinite and all
            return None
        for what, values in (("position", self.joint_position), ("velocity", self.joint_velocity)):
            finite = np.isfinite(values)
            if not finite.all():
                return f"joint_states: the {what} of {JOINT_NAMES[int(finite.argmin())]} is not a finite number"
        for what, values in (("orientation", self.orientation), ("angular velocity", self.angular_velocity)):
            if not np.isfinite(values).all():
                return f"imu/data: the {what} is not a finite number"
        return None

    def _no_orientation(self) -> str | None:
        length = math.hypot(*self.orientation.tolist())
        if not abs(length - 1.0) <= UNIT_TOLERANCE:
            return f"imu/data: the orientation is no unit quaternion (its length is {length:.3g})"
        return None


def _misfit(joints: JointsMessage) -> str:
    """Return the error if there is not one position and one velocity for each name; empty otherwise."""
    for what, values in (("positions", joints.position), ("velocities", joints.velocity)):
        if len(values) != len(joints.names):
            return f"joint_states has {len(values)} {what} for {len(joints.names)} names; publish one for each joint"
    return ""


def _time_of_day(topic: Topic, stamp: int) -> str:
    """Return the error if a stamp [ns] is not in simulated time; empty otherwise."""
    if seconds(stamp) < TIME_OF_DAY:
        return ""
    return (
        f"{topic.name} is stamped in wall-clock time, but this controller runs in simulated time; start the simulator "
        "with clock, or the controller of a real robot without simulated_time"
    )


class NewestMessage:
    """The newest message of one topic, kept serialised until `store(content, received)` is called with it.

    content: the message, or its serialised bytes if `raw`. Messages over the topic's limit are dropped. received: time
    of the newest message [s, time.monotonic].
    """

    def __init__(self, node: Node, topic: Topic, store: Callable[[Any, float], None], raw: bool = False) -> None:
        self._subscription = PolledSubscription(node, replace(topic, requested=NEWEST), raw=True)
        self._kind, self._limit = None if raw else topic.kind, topic.limit
        self._store = store
        self.received = NEVER
        self._content: bytes | None = None

    def store(self, since: float) -> bool:
        """Decode and store the newest message if it was received after `since`; return whether it was."""
        if (taken := self._subscription.take()) is not None and len(taken[0]) <= self._limit:
            self._content, self.received = taken
        if self.received < since:
            return False
        if self._content is not None:
            content, self._content = self._content, None
            self._store(content if self._kind is None else deserialize_message(content, self._kind), self.received)
        return True


class StateReceiver:
    """Subscriptions to one robot's state, which fill `buffer`. For one thread.

    States arrive at regular intervals, so the receiver sleeps most of the interval instead of polling: a poll costs as
    much as decoding a message.
    """

    def __init__(self, node: Node, buffer: StateBuffer) -> None:
        self._interval = 0.0  # [s] between states, smoothed
        self._parts = (
            NewestMessage(node, IMU, buffer.store_imu, raw=True),
            NewestMessage(node, JOINT_STATES, buffer.store_joints, raw=True),
        )

    def receive(self, since: float, until: float) -> None:
        """Wait for a state received after `since`, at most until `until` [s, time.monotonic], and store the newest.

        The part that arrives first is decoded while the other is in transit.
        """
        known = NEVER
        while not all(part.store(since) for part in self._parts):
            if (now := time.monotonic()) >= until:
                for part in self._parts:
                    part.store(NEVER)
                return
            known = self._measure(known)
            expected = known + EARLY * self._interval if known < since else now  # the other part comes at once
            time.sleep(min(max(min(expected, until) - now, POLL_INTERVAL), LONGEST_SLEEP))
        self._measure(known)

    def poll(self) -> bool:
        """Store new messages; return whether there were any."""
        before = [part.received for part in self._parts]
        for part in self._parts:
            part.store(NEVER)
        return before != [part.received for part in self._parts]

    @property
    def received(self) -> float:
        """When the older part of the newest state was received [s, time.monotonic]."""
        return min(part.received for part in self._parts)

    def _measure(self, before: float) -> float:
        """Return when the newest IMU message was received; update the interval if it is not the one of `before`."""
        received = self._parts[0].received
        if NEVER < before < received:
            self._interval += SMOOTHING * (received - before - self._interval)
        return received


class StatePublisher:
    """Publishes joint_states and imu/data of one robot. For one thread at a time."""

    def __init__(self, node: Node) -> None:
        self._joints_publisher, self._imu_publisher = JOINT_STATES.publisher(node), IMU.publisher(node)
        self._joints, self._imu = JointsBuffer(JOINT_NAMES), imu_buffer(IMU_FRAME)

    def publish(self, reading: SensorReading, stamp: int) -> None:
        """Publish a state measured at `stamp` [ns]."""
        self._imu_publisher.publish(
            self._imu.write(stamp, reading.orientation, reading.angular_velocity, reading.linear_acceleration)
        )
        self._joints_publisher.publish(self._joints.write(stamp, reading.position, reading.velocity, reading.torque))


class OdomPublisher:
    """Publishes odom of a simulated robot, and its transform on tf if ROS has the message type (a distribution)."""

    def __init__(self, node: Node) -> None:
        self._publisher = ODOM.publisher(node)
        self._transforms = TF.publisher(node) if TF else None
        self._transformed = 0  # stamp [ns] of the last transform
        self._odom = Odometry(child_frame_id=BASE_FRAME)
        self._odom.header.frame_id = WORLD_FRAME

    def publish(self, trunk: TrunkPose, stamp: int) -> None:
        """Publish the pose and velocity of the trunk at `stamp` [ns]."""
        second, nanosecond = divmod(stamp, SECOND)
        self._odom.header.stamp = Time(sec=second, nanosec=nanosecond)
        pose, motion = self._odom.pose.pose, self._odom.twist.twist
        pose.position.x, pose.position.y, pose.position.z = trunk.position.tolist()
        fill_quaternion(pose.orientation, trunk.orientation)
        _fill_vector(motion.linear, trunk.linear_velocity)
        _fill_vector(motion.angular, trunk.angular_velocity)
        self._publisher.publish(self._odom)
        if TF and self._transforms and not 0 <= stamp - self._transformed < TF_PERIOD:
            self._transformed = stamp
            self._transforms.publish(TF.kind(transforms=[trunk_transform(self._odom)]))


def trunk_transform(odom: Odometry) -> TransformStamped:
    """Return the pose in an odom message as the transform from the world to the trunk."""
    transform = TransformStamped(header=odom.header, child_frame_id=odom.child_frame_id)
    place, moved = odom.pose.pose, transform.transform
    moved.translation.x, moved.translation.y, moved.translation.z = place.position.x, place.position.y, place.position.z
    moved.rotation = place.orientation
    return transform


@dataclass(frozen=True)
class GroundPatch:
    """Heights (rows, columns) [m] of the ground at every `step` [m]: rows along y from `y`, columns along x from `x`.

    A message on `terrain` has them as an organised point cloud in the world frame, which RViz and Foxglove show.
    """

    x: float
    y: float
    step: float
    heights: Array

    def message(self, stamp: Time) -> PointCloud2:
        """Return the point cloud."""
        rows, columns = self.heights.shape
        points = np.empty((rows, columns, len(AXES)), FLOAT)
        points[..., 0] = self.x + self.step * np.arange(columns)
        points[..., 1] = (self.y + self.step * np.arange(rows))[:, None]
        points[..., 2] = self.heights
        fields = [
            PointField(name=name, offset=FLOAT.itemsize * k, datatype=PointField.FLOAT32, count=1)
            for k, name in enumerate(AXES)
        ]
        size = FLOAT.itemsize * len(AXES)
        cloud = PointCloud2(height=rows, width=columns, fields=fields, point_step=size, row_step=size * columns)
        cloud.header.stamp, cloud.header.frame_id, cloud.is_dense = stamp, WORLD_FRAME, True
        cloud.data.frombytes(points.tobytes())
        return cloud

    @classmethod
    def read(cls, cloud: PointCloud2) -> GroundPatch:
        """Read a message. Raises MessageError unless the points are such a grid."""
        rows, columns, size = cloud.height, cloud.width, FLOAT.itemsize * len(AXES)
        layout = [(one.name, one.offset, one.datatype) for one in cloud.fields]
        wanted = [(name, FLOAT.itemsize * k, PointField.FLOAT32) for k, name in enumerate(AXES)]
        if layout != wanted or cloud.is_bigendian or (cloud.point_step, cloud.row_step) != (size, size * columns):
            raise MessageError("terrain is ignored: its points must be x, y, z as little-endian float32")
        if min(rows, columns) < 2 or rows * columns > MAX_POINTS or len(cloud.data) != size * rows * columns:
            raise MessageError(
                f"terrain is ignored: it must have at least 2 rows and columns and at most {MAX_POINTS} points"
            )
        points = np.frombuffer(cloud.data, FLOAT).reshape(rows, columns, len(AXES)).astype(np.float64)
        (x, y, _), step = points[0, 0], points[0, 1, 0] - points[0, 0, 0]
        grid = np.meshgrid(x + step * np.arange(columns), y + step * np.arange(rows))
        if not (step > 0.0 and np.isfinite(points).all() and np.allclose(points[..., 0], grid[0], atol=0.1 * step)
                and np.allclose(points[..., 1], grid[1], atol=0.1 * step)):  # fmt: skip
            raise MessageError("terrain is ignored: its points must be finite and lie on a grid")
        return cls(float(x), float(y), float(step), points[..., 2])


GainsByJoint = Annotated[dict[str, Annotated[float, Meta(ge=0.0, le=1e4)]], Meta(max_length=len(JOINT_NAMES))]


class Gains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stiffness kp [Nm/rad] and damping kd [Nms/rad] by joint; a message on joint_gains has them as JSON."""

    kp: GainsByJoint
    kd: GainsByJoint

    @classmethod
    def of_joints(cls, names: Sequence[str], kp: Iterable[float], kd: Iterable[float]) -> Gains:
        """Return the gains of the joints called `names`."""
        return cls(dict(zip(names, kp, strict=True)), dict(zip(names, kd, strict=True)))

    @classmethod
    def read(cls, content: bytes) -> Gains:
        """Read a serialised message. Raises ValueError. The robot's driver checks whether they are allowed."""
        text = read_text(content, MAX_GAINS_TEXT)
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise ValueError(
                f'joint_gains must be {{"kp": {{joint: value}}, "kd": {{joint: value}}}} as JSON, '
                f"found {text[:80].decode(errors='replace')!r}: {error}"
            ) from error

    def text(self) -> str:
        """Return the text of a message."""
        return msgspec.json.encode(self).decode()

    def arrays(self) -> tuple[Array, Array]:
        """Return kp and kd, each (12,) in JOINT_NAMES order. Raises ValueError unless each names every joint once."""
        for what, values in (("kp", self.kp), ("kd", self.kd)):
            if odd := sorted(set(values) ^ set(JOINT_NAMES)):
                names = ascii(", ".join(odd))
                raise ValueError(f"joint_gains must give {what} for each joint once; look at {names:.200}")
        kp, kd = ([values[joint] for joint in JOINT_NAMES] for values in (self.kp, self.kd))
        return np.array(kp), np.array(kd)
