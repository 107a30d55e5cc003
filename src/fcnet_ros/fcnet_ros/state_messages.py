"""The messages of a robot's state: joint_states and imu/data, written by its bridge, read by its controller; and the
ground truth that only a simulation has: odom with its transform, and the terrain.

StateBuffer has the signals of the newest state by name and in the order of the robot's joints.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Quaternion, TransformStamped, Vector3
from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import Imu, JointState, PointCloud2, PointField

from fcnet_core.arrays import Array
from fcnet_core.control.timing import NEVER, TIME_OF_DAY
from fcnet_core.errors import MessageError
from fcnet_core.names import BASE_FRAME, IMU_FRAME, SECOND, WORLD_FRAME
from fcnet_core.observation import RobotState, SensorReading, TrunkPose
from fcnet_core.rotation import NO_ESTIMATE, UNIT_TOLERANCE
from fcnet_ros.one_publisher import OnePublisher
from fcnet_ros.serialized import CdrReader, MessageBuffer, NamesReader, placeholders, seconds
from fcnet_ros.topics import IMU, JOINT_STATES, ODOM, TF, Topic

POLL_INTERVAL = 0.0001  # [s]
LONGEST_SLEEP = 0.001  # [s] between two polls for a state, as states may come more often than before
EARLY = 0.9  # polling for the next state starts after this fraction of the interval between states
SMOOTHING = 0.1  # weight of a new interval
TF_PERIOD = SECOND // 50  # [ns] between two transforms, which RViz and Foxglove interpolate
# Points of `terrain`: little-endian floats x, y, z.
FLOAT, POINT = np.dtype("<f4"), 12  # bytes of a point
FIELDS = [PointField(name=name, offset=4 * k, datatype=PointField.FLOAT32, count=1) for k, name in enumerate("xyz")]
MAX_POINTS = 20_000  # of `terrain`
IMU_NUMBERS = 37  # orientation 4, angular velocity 3, linear acceleration 3, each followed by its covariance of 9


class StateBuffer(RobotState):
    """The newest joint state and IMU. Times are seconds of one monotonic clock, or simulated time: a message then
    counts as received at its stamp, and a stamp in wall-clock time is a problem. A message that repeats a stamp, as of
    a paused simulator, is as old as the first one with it; a stamp of zero is none.

    joint_names: of the robot, the order of its N joints. joint_position (N,) [rad], joint_velocity (N,) [rad/s],
    orientation (4,) x, y, z, w, angular_velocity (3,) [rad/s] in the body frame; valid only if `problem` returns None.
    joint_effort (N,) [Nm] and an orientation that is not measured are NaN. Stamps [s] are in the sender's time.
    """

    def __init__(self, joint_names: tuple[str, ...], timeout: float, simulated_time: bool = False) -> None:
        self._joint_names, self._simulated_time = joint_names, simulated_time
        joints = len(joint_names)
        self.joint_position, self.joint_velocity = np.zeros(joints), np.zeros(joints)
        self.orientation, self.angular_velocity = np.zeros(4), np.zeros(3)
        self.joint_effort: Array = np.full(joints, np.nan)
        # When the newest message was received, its problem, and whether it repeats a stamp; set at once: other threads
        # ask at any time.
        self._joints: tuple[float, str, bool] = NEVER, "", False
        self._imu: tuple[float, str, bool] = NEVER, "", False
        self.joints_stamp = self.imu_stamp = 0.0
        self.timeout = timeout
        self._names_reader = NamesReader()
        self._read_names(())
        self.clock_problem: Callable[[], str] = str  # why the node's time cannot be used
        self.conflict: Callable[[], str] = str

    @property
    def joints_received(self) -> float:
        """When the newest JointState was received, NEVER before the first."""
        return self._joints[0]

    @property
    def received(self) -> float:
        """When the older of the two parts was received."""
        return min(self._joints[0], self._imu[0])

    def store_joints(self, content: bytes, received: float) -> None:
        """Store a serialised JointState with joints in any order; other joints are ignored.

        An invalid message changes no value and becomes a problem.
        """
        try:
            reader, stamp, names = self._names_reader.read(content)
            position, velocity, effort = reader.doubles(), reader.doubles(), reader.doubles()
        except MessageError as error:
            self._joints = received, f"joint_states: {error}", False
            return
        if names is not self._names:
            self._read_names(names)
        wrong, sent = self._misnamed, seconds(stamp)
        repeated = 0.0 != sent == self.joints_stamp
        if not wrong and not len(position) == len(velocity) == len(names):
            found = f"{len(position)} positions and {len(velocity)} velocities for {len(names)} names"
            wrong = f"joint_states has {found}; publish one for each joint"
        if not wrong:
            position, velocity = position[self._order], velocity[self._order]
            received = self._joints[0] if repeated else received
            if self._simulated_time:
                received, wrong = sent, _time_of_day(JOINT_STATES, stamp)
            wrong = wrong or self._unusable_joints(position, velocity)
            if wrong:
                self._joints = received, wrong, repeated  # before its values
            self.joint_position[:], self.joint_velocity[:] = position, velocity
            self.joint_effort[:] = effort[self._order] if len(effort) == len(names) else np.nan
            self.joints_stamp = sent
        self._joints = received, wrong, repeated

    def store_imu(self, content: bytes, received: float) -> None:
        """Store a serialised Imu. An invalid message changes no value and becomes a problem."""
        try:
            reader = CdrReader(content)
            stamp = reader.stamp()
            reader.text()
            numbers = reader.array(IMU_NUMBERS)
        except MessageError as error:
            self._imu = received, f"imu/data: {error}", False
            return
        wrong, sent = "", seconds(stamp)
        repeated = 0.0 != sent == self.imu_stamp
        received = self._imu[0] if repeated else received
        if self._simulated_time:
            received, wrong = sent, _time_of_day(IMU, stamp)
        unusable = _unusable_imu(numbers)
        if wrong := wrong or unusable:
            self._imu = received, wrong, repeated  # before its values
        self.orientation[:] = np.nan if "orientation" in unusable else numbers[0:4]
        self.angular_velocity[:] = numbers[13:16]
        self.imu_stamp = sent
        self._imu = received, wrong, repeated

    def problem(self, now: float) -> str | None:
        """Return why this state must not be used at time `now`; None if it may. Any thread may ask."""
        if wrong := self.clock_problem():  # states are too old then as well
            return wrong
        for topic, (received, problem, repeated) in ((JOINT_STATES.name, self._joints), (IMU.name, self._imu)):
            if received == NEVER:
                return f"no message on {topic} yet; start the robot's bridge or the simulator"
            if now - received > self.timeout:
                age = f"{now - received:.2f} s old{' by its stamp, which stands still' if repeated else ''}"
                return f"{topic} is {age}, the limit is {self.timeout:g} s; check the bridge"
            wrong = wrong or problem
        return wrong or None

    def _read_names(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._order: slice | list[int] = slice(None)  # no copy if they are in the robot's order
        if names != self._joint_names:
            self._order = [names.index(name) for name in self._joint_names if name in names]
        missing = [name for name in self._joint_names if name not in names]
        self._misnamed = f"joint_states lacks {', '.join(missing)}; it names {', '.join(names)}" if missing else ""

    def _unusable_joints(self, position: Array, velocity: Array) -> str:
        if not math.isfinite(position.dot(position) + velocity.dot(velocity)):  # ten times as fast as isfinite and all
            for what, values in (("position", position), ("velocity", velocity)):
                if not (finite := np.isfinite(values)).all():
                    joint = self._joint_names[int(finite.argmin())]
                    return f"joint_states: the {what} of {joint} is not a finite number"
        return ""


def _unusable_imu(numbers: Array) -> str:
    """Return the error in the numbers of an IMU; empty if they can be used."""
    x, y, z, w, known = numbers[0:5].tolist()  # each with the first number of its covariance
    roll_rate, pitch_rate, yaw_rate, rate_known = numbers[13:17].tolist()
    length, rates = math.hypot(x, y, z, w), (roll_rate, pitch_rate, yaw_rate)
    if abs(length - 1.0) <= UNIT_TOLERANCE and math.isfinite(sum(rates)) and known != NO_ESTIMATE != rate_known:
        return ""
    for what, values, covariance in (("orientation", (x, y, z, w), known), ("angular velocity", rates, rate_known)):
        if covariance == NO_ESTIMATE:
            return f"imu/data: the {what} is not measured (its covariance is -1); take an IMU that measures it"
        if not all(map(math.isfinite, values)):
            return f"imu/data: the {what} is not a finite number"
    return f"imu/data: the orientation is no unit quaternion (its length is {length:.3g})"


def _time_of_day(topic: Topic, stamp: int) -> str:
    """Return the error if a stamp [ns] is not in simulated time; empty otherwise."""
    if seconds(stamp) < TIME_OF_DAY:
        return ""
    return (
        f"{topic.name} is stamped in wall-clock time, but this controller runs in simulated time; start the simulator "
        "with clock, or the controller of a real robot without simulated_time"
    )


class StateReceiver:
    """Subscriptions to one robot's state, which fill `buffer`. For one thread.

    Another publisher of a topic is followed after a silence as long as a state's maximum age; see OnePublisher.
    States arrive at regular intervals, so the receiver sleeps most of the interval instead of polling: a poll costs as
    much as decoding a message.
    """

    def __init__(self, node: Node, buffer: StateBuffer, on_switch: Callable[[str], None] | None = None) -> None:
        self._interval = 0.0  # [s] between states, smoothed
        self._parts = (
            OnePublisher(node, IMU, buffer.store_imu, buffer.timeout, True, on_switch),
            OnePublisher(node, JOINT_STATES, buffer.store_joints, buffer.timeout, True, on_switch),
        )

    def receive(self, since: float, until: float) -> None:
        """Wait for a state received after `since`, at most until `until` [s, time.monotonic], and store the newest.

        The part that arrives first is decoded while the other is in transit.
        """
        known = NEVER
        while not all(part.store(since) for part in self._parts):
            if (now := time.monotonic()) >= until:
                self.poll()
                return
            known = self._measure(known)
            expected = known + EARLY * self._interval if known < since else now  # the other part comes at once
            time.sleep(min(max(min(expected, until) - now, POLL_INTERVAL), LONGEST_SLEEP))
        self._measure(known)

    def unidentified(self) -> str:
        """Return which publishers of the state the middleware does not distinguish; empty if there are no two."""
        return "; ".join(filter(None, (part.conflict() for part in self._parts if not part.is_identified)))

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
    """Publishes joint_states and imu/data of a robot with the joints `joint_names`. For one thread at a time."""

    def __init__(self, node: Node, joint_names: tuple[str, ...]) -> None:
        self._joints_publisher, self._imu_publisher = JOINT_STATES.publisher(node), IMU.publisher(node)
        self._joint_names = joint_names
        self._sizes: list[int] = []  # of the arrays of joints; each may be empty
        imu, blocks = Imu(), placeholders(4, 3, 3)
        imu.header.frame_id = IMU_FRAME
        for part, block in zip((imu.orientation, imu.angular_velocity, imu.linear_acceleration), blocks, strict=True):
            for name, value in zip("xyzw", block.tolist(), strict=False):
                setattr(part, name, value)
        self._imu = MessageBuffer(imu, blocks)

    def publish(self, reading: SensorReading, stamp: int) -> None:
        """Publish a state measured at `stamp` [ns]."""
        joints = reading.position, reading.velocity, reading.torque
        if (sizes := [len(values) for values in joints]) != self._sizes:
            self._sizes, blocks = sizes, placeholders(*sizes)
            fields = dict(zip(("position", "velocity", "effort"), blocks, strict=True))
            self._joints = MessageBuffer(JointState(name=self._joint_names, **fields), blocks)
        imu = self._imu.write(stamp, reading.orientation, reading.angular_velocity, reading.linear_acceleration)
        self._imu_publisher.publish(imu)
        self._joints_publisher.publish(self._joints.write(stamp, *joints))


def fill_quaternion(quaternion: Quaternion, xyzw: Array) -> None:
    """Set x, y, z, w from values (4,) in this order."""
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = xyzw.tolist()


def _fill_vector(vector: Vector3 | Point, values: Array) -> None:
    vector.x, vector.y, vector.z = values.tolist()


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
        _fill_vector(pose.position, trunk.position)
        fill_quaternion(pose.orientation, trunk.orientation)
        _fill_vector(motion.linear, trunk.linear_velocity)
        _fill_vector(motion.angular, trunk.angular_velocity)
        self._publisher.publish(self._odom)
        if TF and self._transforms and not 0 <= stamp - self._transformed < TF_PERIOD:
            self._transformed = stamp
            transform = TransformStamped(header=self._odom.header, child_frame_id=BASE_FRAME)
            _fill_vector(transform.transform.translation, trunk.position)
            transform.transform.rotation = pose.orientation
            self._transforms.publish(TF.kind(transforms=[transform]))


@dataclass(frozen=True)
class GroundPatch:
    """Heights (rows, columns) [m] of the ground at every `step` [m]: rows along y from `y`, columns along x from `x`.

    A message on `terrain` has them as an organised point cloud in the world frame, which RViz and Foxglove show.
    """

    x: float
    y: float
    step: float
    heights: Array

    def points(self) -> Array:
        """Return x, y, z of the points (rows, columns, 3) [m]."""
        rows, columns = self.heights.shape
        grid = np.meshgrid(self.x + self.step * np.arange(columns), self.y + self.step * np.arange(rows))
        return np.stack([*grid, self.heights], axis=-1)

    def message(self, stamp: Time) -> PointCloud2:
        """Return the point cloud."""
        rows, columns = self.heights.shape
        cloud = PointCloud2(height=rows, width=columns, fields=FIELDS, point_step=POINT, row_step=POINT * columns)
        cloud.header.stamp, cloud.header.frame_id, cloud.is_dense = stamp, WORLD_FRAME, True
        cloud.data.frombytes(self.points().astype(FLOAT).tobytes())
        return cloud

    @classmethod
    def read(cls, cloud: PointCloud2) -> GroundPatch:
        """Read a message. Raises MessageError unless the points are such a grid."""
        rows, columns, sizes = cloud.height, cloud.width, (cloud.point_step, cloud.row_step)
        if cloud.fields != FIELDS or cloud.is_bigendian or sizes != (POINT, POINT * columns):
            raise MessageError("terrain is ignored: its points must be x, y, z as little-endian float32")
        if min(rows, columns) < 2 or rows * columns > MAX_POINTS or len(cloud.data) != POINT * rows * columns:
            raise MessageError(
                f"terrain is ignored: it must have at least 2 rows and columns and at most {MAX_POINTS} points"
            )
        points = np.frombuffer(cloud.data, FLOAT).reshape(rows, columns, len(FIELDS)).astype(np.float64)
        (x, y, _), step = points[0, 0], points[0, 1, 0] - points[0, 0, 0]
        patch = cls(float(x), float(y), float(step), points[..., 2])
        if not (step > 0.0 and np.isfinite(points).all() and np.allclose(points, patch.points(), atol=0.1 * step)):
            raise MessageError("terrain is ignored: its points must be finite and lie on a grid")
        return patch
