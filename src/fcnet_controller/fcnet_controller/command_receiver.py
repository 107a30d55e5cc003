"""Receives cmd_vel and cmd_pose of every source in config/remote.yaml."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from geometry_msgs.msg import Pose, Twist, TwistStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.time import Time

from fcnet_core.command_arbiter import CommandArbiter
from fcnet_core.command_source import CommandSource
from fcnet_core.remote_map import RemoteMap, load_remote_map

QUIET = 2.0  # [s] between two warnings about the same


class CommandReceiver:
    """Subscriptions that hand people's and planners' commands to a CommandArbiter, and tell who takes over.

    Raises RemoteFileError where config/remote.yaml cannot be used.
    """

    def __init__(self, node: Node, commands: CommandArbiter, stamped: bool, remote: RemoteMap | None = None) -> None:
        self._node = node
        self._commands = commands
        self._told = ""
        self._subscriptions: list[Any] = []
        take = self._take_stamped if stamped else self._take
        for topics in (remote or load_remote_map()).sources:
            source = commands.add_source(topics.name)
            self._subscribe(TwistStamped if stamped else Twist, topics.velocity, partial(take, source))
            self._subscribe(Pose, topics.pose, partial(self._take_pose, source))

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        for subscription in self._subscriptions:
            node.destroy_subscription(subscription)

    def _subscribe(self, kind: type, topic: str, take: Any) -> None:
        self._subscriptions.append(self._node.create_subscription(kind, topic, take, QoSProfile(depth=1)))

    def _take(self, source: CommandSource, message: Twist) -> None:
        self._set_velocity(source, message, 0.0)

    def _take_stamped(self, source: CommandSource, message: TwistStamped) -> None:
        """A stamp makes a command as old as it says; a stamp of zero says nothing."""
        stamp = Time.from_msg(message.header.stamp, clock_type=self._node.get_clock().clock_type)
        age = (self._node.get_clock().now() - stamp).nanoseconds * 1e-9 if stamp.nanoseconds else 0.0
        self._set_velocity(source, message.twist, max(age, 0.0))

    def _set_velocity(self, source: CommandSource, twist: Twist, age: float) -> None:
        now = time.monotonic()
        self._warn(source.set_velocity(twist.linear.x, twist.linear.y, twist.angular.z, now - age))
        self._tell_source(now)

    def _take_pose(self, source: CommandSource, message: Pose) -> None:
        now, attitude = time.monotonic(), message.orientation
        orientation = (attitude.x, attitude.y, attitude.z, attitude.w)
        self._warn(source.set_pose(message.position.z, orientation, now))
        self._tell_source(now)

    def _tell_source(self, now: float) -> None:
        source = self._commands.source(now)
        if not source or source == self._told:
            return
        before, self._told = self._told, source
        self._node.get_logger().info(f"{source} takes over from {before}" if before else f"{source} is in control")

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None:
            self._node.get_logger().warning(sentence, throttle_duration_sec=QUIET)
