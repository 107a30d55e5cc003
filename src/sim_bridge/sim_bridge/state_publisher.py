"""Publishes what a simulated robot's sensors say."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Imu, JointState

from fcnet_core.robot import JOINT_NAMES
from quadruped_sim.live_robot import SensorReading
from sim_bridge.message_fields import doubles, fill_quaternion, fill_vector

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
