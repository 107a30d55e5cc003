"""Puts recorded states where the policy looks for measured ones."""

from __future__ import annotations

from sensor_msgs.msg import Imu, JointState

from fcnet_controller.state_buffer import StateBuffer

ANY_AGE = float("inf")  # a recorded state is never too old
NOW = 0.0


def store_state(buffer: StateBuffer, joints: JointState, imu: Imu) -> None:
    """Take the two messages as received just now; `buffer.problem(NOW)` tells whether they can be used."""
    attitude, rate = imu.orientation, imu.angular_velocity
    buffer.store_joints(joints.name, joints.position, joints.velocity, NOW)
    buffer.store_imu((attitude.x, attitude.y, attitude.z, attitude.w), (rate.x, rate.y, rate.z), NOW)
