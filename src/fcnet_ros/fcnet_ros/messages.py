"""The messages that robot and controller exchange: state, odometry, joint targets and gains, written and read."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Quaternion, Vector3
from msgspec import Meta
from nav_msgs.msg import Odometry
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_core.arrays import Array
from fcnet_core.limiter import JointCommand, RefusedCommandError, joint_command
from fcnet_core.observation import LABEL, SIZE, PolicyStep, SensorReading, TrunkPose
from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.cdr import read_text
from fcnet_ros.topics import IMU, JOINT_STATES, JOINT_TRAJECTORY, NEWEST, ODOM, POLICY_STEP, PolledSubscription, Topic

NEVER = float("-inf")
UNIT_TOLERANCE = 0.1  # a quaternion whose length is further from 1 is no orientation
POLL_INTERVAL = 0.0001  # [s]
IMU_FRAME, WORLD_FRAME, TRUNK_FRAME = "imu_link", "odom", "base_link"
MAX_GAINS_TEXT = 4096  # [bytes] of joint_gains; the suite's have 0.7 kB
NOTHING = array("d")
AT_REST = array("d", [0.0] * len(JOINT_NAMES))


def seconds(stamp: Time) -> float:
    """Return a message's stamp as a number [s]."""
    return stamp.sec + 1e-9 * stamp.nanosec


def fill_quaternion(quaternion: Quaternion, xyzw: Array) -> None:
    """Set x, y, z, w from values (4,) in this order."""
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = xyzw.tolist()


def _fill_vector(vector: Vector3, values: Array) -> None:
    vector.x, vector.y, vector.z = values.tolist()


def _doubles(values: Array) -> array[float]:
    return array("d", values.tobytes())


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
        self.joints_received = self.imu_received = NEVER
        self.joints_stamp = self.imu_stamp = 0.0
        self._timeout = timeout
        self._read_names([])
        self._wrong_joints = ""

    @property
    def received(self) -> float:
        """When the older of the two parts was received."""
        return min(self.joints_received, self.imu_received)

    def store_joints(self, joints: JointState, received: float) -> None:
        """Take a message whose joints are named in any order; further joints are ignored.

        One that does not fit is remembered as a problem and changes no value.
        """
        self.joints_received = received
        if joints.name != self._names:
            self._read_names(list(joints.name))
        self._wrong_joints = self._misfit(positions=len(joints.position), velocities=len(joints.velocity))
        if not self._wrong_joints:
            self.joint_position[:] = np.asarray(joints.position)[self._order]
            self.joint_velocity[:] = np.asarray(joints.velocity)[self._order]
            self.joints_stamp = seconds(joints.header.stamp)

    def store_imu(self, imu: Imu, received: float) -> None:
        """Take a message."""
        attitude, rate = imu.orientation, imu.angular_velocity
        self.imu_received = received
        self.imu_stamp = seconds(imu.header.stamp)
        self.orientation[:] = attitude.x, attitude.y, attitude.z, attitude.w
        self.angular_velocity[:] = rate.x, rate.y, rate.z

    def problem(self, now: float) -> str | None:
        """Why this state must not be used at time `now`, in words; None when it may."""
        for topic, received in ((JOINT_STATES.name, self.joints_received), (IMU.name, self.imu_received)):
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

    def _misfit(self, **counts: int) -> str:
        if self._misnamed:
            return self._misnamed
        for what, count in counts.items():
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


class StateReceiver:
    """Subscriptions to one robot's state, which fill `buffer`; used by one thread."""

    def __init__(self, node: Node, buffer: StateBuffer) -> None:
        self._parts = (
            NewestMessage(node, IMU, buffer.store_imu),
            NewestMessage(node, JOINT_STATES, buffer.store_joints),
        )

    def receive(self, since: float, until: float) -> None:
        """Store the newest state, waiting for one received after `since`, but not beyond `until` (monotonic seconds).

        The part that comes first is decoded while the other is on its way.
        """
        while not all(part.store(since) for part in self._parts) and time.monotonic() < until:
            time.sleep(POLL_INTERVAL)
        for part in self._parts:
            part.store(NEVER)


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


class TargetPublisher:
    """Publishes joint_trajectory with one point: positions, or velocities of zero alone, which mean damping.

    Besides, for recordings, ~/policy_step: what went into a step of the policy (fcnet_core/observation.py). A message
    is made once and filled again, by one thread at a time.
    """

    def __init__(self, node: Node, targets: Topic = JOINT_TRAJECTORY, steps: Topic = POLICY_STEP) -> None:
        self.publishers = [targets.publisher(node), steps.publisher(node)]
        self._clock = node.get_clock()
        self._point = JointTrajectoryPoint()
        self._message = JointTrajectory(joint_names=list(JOINT_NAMES), points=[self._point])
        layout = MultiArrayLayout(dim=[MultiArrayDimension(label=LABEL, size=SIZE, stride=SIZE)])
        self._step = Float64MultiArray(layout=layout)
        self._previous_stamp = self._stamp = 0.0

    def publish(self, target: Array | None, stamp: Time | None = None) -> None:
        """Send position targets (12,) [rad], or None for damping; stamp: None for now."""
        self._point.positions = NOTHING if target is None else _doubles(target)
        self._point.velocities = AT_REST if target is None else NOTHING
        self._message.header.stamp = self._clock.now().to_msg() if stamp is None else stamp
        self.publishers[0].publish(self._message)
        self._previous_stamp, self._stamp = self._stamp, seconds(self._message.header.stamp)

    def wait_until_received(self, timeout: float) -> None:
        """Return when every reliable subscriber has the targets that were sent, or after `timeout` [s]."""
        self.publishers[0].wait_for_all_acked(Duration(seconds=timeout))

    def publish_step(self, step: PolicyStep) -> None:
        """Publish what led to the targets just sent."""
        stamped = replace(step, target_stamp=self._stamp, previous_stamp=self._previous_stamp)
        self._step.data = _doubles(stamped.vector())
        self.publishers[1].publish(self._step)


def read_trajectory(message: JointTrajectory) -> JointCommand:
    """Read the message's one point. Raises RefusedCommandError for one that no robot should follow."""
    if len(message.points) != 1:
        raise RefusedCommandError(f"joint_trajectory has {len(message.points)} points; send exactly one")
    point = message.points[0]
    return joint_command(message.joint_names, point.positions, point.velocities, point.effort)


GainsByJoint = Annotated[dict[str, Annotated[float, Meta(ge=0.0, le=1e4)]], Meta(max_length=len(JOINT_NAMES))]


class Gains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stiffness kp [Nm/rad] and damping kd [Nms/rad] by joint: a message on joint_gains is this as JSON."""

    kp: GainsByJoint
    kd: GainsByJoint

    @classmethod
    def of_joints(cls, names: Sequence[str], kp: Iterable[float], kd: Iterable[float]) -> Gains:
        """Return the gains of the joints called `names`."""
        return cls(dict(zip(names, kp, strict=True)), dict(zip(names, kd, strict=True)))

    @classmethod
    def read(cls, content: bytes) -> Gains:
        """Read a serialised message. Raises ValueError; whether a robot may have them is checked by its driver."""
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
