"""Publishes what the robot's sensors say."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Imu, JointState

from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.recorder_gate import RecorderGate
from unitree_lowlevel.messages import LowState

IMU_FRAME = "imu_link"
TOPICS = ("joint_states", "imu/data")


class StatePublisher:
    """joint_states (effort is the board's estimate of the torque) and imu/data, frame imu_link.

    The messages are made once and filled again, by one thread at a time. Nothing is published while `gate` is closed:
    a robot without states is not moved.
    """

    def __init__(self, node: Node, gate: RecorderGate) -> None:
        self._gate = gate
        self._joints_publisher = node.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
        self._imu_publisher = node.create_publisher(Imu, "imu/data", qos_profile_sensor_data)
        self._clock = node.get_clock()
        self._joints = JointState(name=list(JOINT_NAMES))
        self._imu = Imu()
        self._imu.header.frame_id = IMU_FRAME

    def publish(self, state: LowState) -> None:
        """Publish a state that has just been received."""
        if not self._gate.is_open:
            return
        stamp = self._clock.now().to_msg()
        imu, joints = self._imu, self._joints
        imu.header.stamp = joints.header.stamp = stamp
        turned, rate, acceleration = imu.orientation, imu.angular_velocity, imu.linear_acceleration
        turned.x, turned.y, turned.z, turned.w = state.orientation.tolist()
        rate.x, rate.y, rate.z = state.angular_velocity.tolist()
        acceleration.x, acceleration.y, acceleration.z = state.linear_acceleration.tolist()
        joints.position = _doubles(state.position)
        joints.velocity = _doubles(state.velocity)
        joints.effort = _doubles(state.torque)
        self._imu_publisher.publish(imu)
        self._joints_publisher.publish(joints)

    def destroy(self, node: Node) -> None:
        """Stop publishing."""
        node.destroy_publisher(self._joints_publisher)
        node.destroy_publisher(self._imu_publisher)


def _doubles(values: npt.NDArray[np.float64]) -> array[float]:
    return array("d", values.tobytes())
