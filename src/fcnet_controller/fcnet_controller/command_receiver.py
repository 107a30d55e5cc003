"""Receives cmd_vel and cmd_pose."""

from __future__ import annotations

import time

from geometry_msgs.msg import Pose, Twist, TwistStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.time import Time

from fcnet_controller.command_source import CommandSource

QUIET = 2.0  # [s] between two warnings about the same


class CommandReceiver:
    """Subscriptions that hand people's and planners' commands to a CommandSource."""

    def __init__(self, node: Node, commands: CommandSource, stamped: bool) -> None:
        self._node = node
        self._commands = commands
        velocity = (
            node.create_subscription(TwistStamped, "cmd_vel", self._take_stamped, QoSProfile(depth=1))
            if stamped
            else node.create_subscription(Twist, "cmd_vel", self._take, QoSProfile(depth=1))
        )
        self._subscriptions = (
            velocity,
            node.create_subscription(Pose, "cmd_pose", self._take_pose, QoSProfile(depth=1)),
        )

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        for subscription in self._subscriptions:
            node.destroy_subscription(subscription)

    def _take(self, message: Twist) -> None:
        self._set_velocity(message, 0.0)

    def _take_stamped(self, message: TwistStamped) -> None:
        """A stamp makes a command as old as it says; a stamp of zero says nothing."""
        stamp = Time.from_msg(message.header.stamp, clock_type=self._node.get_clock().clock_type)
        age = (self._node.get_clock().now() - stamp).nanoseconds * 1e-9 if stamp.nanoseconds else 0.0
        self._set_velocity(message.twist, max(age, 0.0))

    def _set_velocity(self, twist: Twist, age: float) -> None:
        self._warn(self._commands.set_velocity(twist.linear.x, twist.linear.y, twist.angular.z, time.monotonic() - age))

    def _take_pose(self, message: Pose) -> None:
        attitude = message.orientation
        self._warn(self._commands.set_pose(message.position.z, (attitude.x, attitude.y, attitude.z, attitude.w)))

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None:
            self._node.get_logger().warning(sentence, throttle_duration_sec=QUIET)
