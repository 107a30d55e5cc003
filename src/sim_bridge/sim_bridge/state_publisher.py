"""Publishes what a robot's sensors say, and in simulation where it really is."""

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

Array = npt.NDArray[np.float64]
IMU_FRAME = "imu_link"
WORLD_FRAME = "odom"
TRUNK_FRAME = "base_link"


class StatePublisher:
    """joint_states, imu/data and odom of one robot; the messages are made once and filled again."""

    def __init__(self, node: Node) -> None:
        self._joints_publisher = node.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
        self._imu_publisher = node.create_publisher(Imu, "imu/data", qos_profile_sensor_data)
        self._odom_publisher = node.create_publisher(Odometry, "odom", 10)  # reliable, as RViz wants it
        self._joints = JointState(name=list(JOINT_NAMES))
        self._imu = Imu()
        self._imu.header.frame_id = IMU_FRAME
        self._odom = Odometry(child_frame_id=TRUNK_FRAME)
        self._odom.header.frame_id = WORLD_FRAME

    def publish(self, reading: SensorReading, truth: GroundTruth, stamp: Time) -> None:
        """Publish one state, taken at `stamp`."""
        for message in (self._joints, self._imu, self._odom):
            message.header.stamp = stamp
        self._fill_odom(truth)
        self._fill_imu(reading)
        self._joints.position = _doubles(reading.joint_position)
        self._joints.velocity = _doubles(reading.joint_velocity)
        self._joints.effort = _doubles(reading.joint_effort)
        self._odom_publisher.publish(self._odom)
        self._imu_publisher.publish(self._imu)
        self._joints_publisher.publish(self._joints)

    def _fill_imu(self, reading: SensorReading) -> None:
        _fill_quaternion(self._imu.orientation, reading.orientation)
        _fill_vector(self._imu.angular_velocity, reading.angular_velocity)
        _fill_vector(self._imu.linear_acceleration, reading.linear_acceleration)

    def _fill_odom(self, truth: GroundTruth) -> None:
        place = self._odom.pose.pose
        place.position.x, place.position.y, place.position.z = truth.position.tolist()
        _fill_quaternion(place.orientation, truth.orientation)
        _fill_vector(self._odom.twist.twist.linear, truth.linear_velocity)
        _fill_vector(self._odom.twist.twist.angular, truth.angular_velocity)


def _doubles(values: Array) -> array[float]:
    return array("d", values.tobytes())


def _fill_vector(vector: Vector3, values: Array) -> None:
    vector.x, vector.y, vector.z = values.tolist()


def _fill_quaternion(quaternion: Quaternion, xyzw: Array) -> None:
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = xyzw.tolist()
