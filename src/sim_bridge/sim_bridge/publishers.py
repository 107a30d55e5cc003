"""Publishes what a simulated robot's sensors say and where it really is."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Quaternion, Vector3
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Imu, JointState

from fcnet_core.robot import JOINT_NAMES
from quadruped_sim.live_robot import GroundTruth, SensorReading

# Fills fields of ROS messages from arrays.

Array = npt.NDArray[np.float64]


def doubles(values: Array) -> array[float]:
    """A message's float64[]."""
    return array("d", values.tobytes())


def fill_vector(vector: Vector3, values: Array) -> None:
    """Set x, y, z from values (3,)."""
    vector.x, vector.y, vector.z = values.tolist()


def fill_quaternion(quaternion: Quaternion, xyzw: Array) -> None:
    """Set x, y, z, w from values (4,) in this order."""
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = xyzw.tolist()


# Publishes what a simulated robot's sensors say.

IMU_FRAME = "imu_link"


class StatePublisher:
    """joint_states and imu/data of one robot; the messages are made once and filled again."""

    def __init__(self, node: Node) -> None:
        self._joints_publisher = node.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
        self._imu_publisher = node.create_publisher(Imu, "imu/data", qos_profile_sensor_data)
        self._joints = JointState(name=list(JOINT_NAMES))
        self._imu = Imu()
        self._imu.header.frame_id = IMU_FRAME

    def publish(self, reading: SensorReading, stamp: Time) -> None:
        """Publish one state, taken at `stamp`."""
        for message in (self._joints, self._imu):
            message.header.stamp = stamp
        fill_quaternion(self._imu.orientation, reading.orientation)
        fill_vector(self._imu.angular_velocity, reading.angular_velocity)
        fill_vector(self._imu.linear_acceleration, reading.linear_acceleration)
        self._joints.position = doubles(reading.joint_position)
        self._joints.velocity = doubles(reading.joint_velocity)
        self._joints.effort = doubles(reading.joint_effort)
        self._imu_publisher.publish(self._imu)
        self._joints_publisher.publish(self._joints)


# Publishes where a simulated robot really is.

WORLD_FRAME = "odom"
TRUNK_FRAME = "base_link"


class OdomPublisher:
    """odom of one robot; the message is made once and filled again."""

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(Odometry, "odom", 10)  # reliable, as RViz wants it
        self._odom = Odometry(child_frame_id=TRUNK_FRAME)
        self._odom.header.frame_id = WORLD_FRAME

    def publish(self, truth: GroundTruth, stamp: Time) -> None:
        """Publish one place, taken at `stamp`."""
        self._odom.header.stamp = stamp
        place, motion = self._odom.pose.pose, self._odom.twist.twist
        place.position.x, place.position.y, place.position.z = truth.position.tolist()
        fill_quaternion(place.orientation, truth.orientation)
        fill_vector(motion.linear, truth.linear_velocity)
        fill_vector(motion.angular, truth.angular_velocity)
        self._publisher.publish(self._odom)
