"""Publishes the commands of one source."""

from __future__ import annotations

import math

from geometry_msgs.msg import Pose, Twist, TwistStamped
from rclpy.node import Node

from fcnet_core.remote_map import Source


class CommandPublisher:
    """Sends setpoints by field, as velocity and as pose, on the topics of a source."""

    def __init__(self, node: Node, source: Source, stamped: bool) -> None:
        self._node = node
        self._stamped = stamped
        self._velocity = node.create_publisher(TwistStamped if stamped else Twist, source.velocity, 1)
        self._pose = node.create_publisher(Pose, source.pose, 1)

    def send_velocity(self, setpoint: dict[str, float]) -> None:
        """Send vx, vy [m/s] and yaw_rate [rad/s]."""
        velocity = Twist()
        velocity.linear.x, velocity.linear.y = setpoint["vx"], setpoint["vy"]
        velocity.angular.z = setpoint["yaw_rate"]
        self._velocity.publish(self._stamp(velocity) if self._stamped else velocity)

    def send_pose(self, setpoint: dict[str, float]) -> None:
        """Send height [m], roll and pitch [rad]."""
        pose, half_roll, half_pitch = Pose(), setpoint["roll"] / 2, setpoint["pitch"] / 2
        pose.position.z = setpoint["height"]
        pose.orientation.x = math.sin(half_roll) * math.cos(half_pitch)
        pose.orientation.y = math.cos(half_roll) * math.sin(half_pitch)
        pose.orientation.z = -math.sin(half_roll) * math.sin(half_pitch)
        pose.orientation.w = math.cos(half_roll) * math.cos(half_pitch)
        self._pose.publish(pose)

    def _stamp(self, velocity: Twist) -> TwistStamped:
        stamped = TwistStamped(twist=velocity)
        stamped.header.stamp = self._node.get_clock().now().to_msg()
        stamped.header.frame_id = "base_link"
        return stamped
