"""Receives what a robot, its controller and those who command it say, without a callback for what comes often."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import Pose, Twist, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from fcnet_controller.monitor_picture import FRESH, Moment, Place
from fcnet_controller.newest_message import HandledByNoExecutor, NewestMessage
from fcnet_controller.state_buffer import NEVER, StateBuffer
from fcnet_controller.state_receiver import StateReceiver
from fcnet_core.command_arbiter import CommandArbiter
from fcnet_core.command_source import CommandSource
from fcnet_core.joint_command import RefusedCommandError, joint_command
from fcnet_core.policy_step import SCALARS, SIZE
from fcnet_core.remote_map import RemoteMap

WANTED = slice(len(SCALARS), len(SCALARS) + 6)  # of a policy step: velocity and pose


class MonitorReceiver:
    """Subscriptions that fill a Moment when asked; used by one thread."""

    def __init__(self, node: Node, controller: str, remote: RemoteMap, stamped: bool) -> None:
        self.moment = Moment(StateBuffer(FRESH), CommandArbiter(FRESH))
        self._states = StateReceiver(node, self.moment.state)
        group = HandledByNoExecutor()

        def listen(kind: type, topic: str, store: Callable[[Any, float], None]) -> NewestMessage:
            return NewestMessage(node, kind, topic, store, group)

        self._parts = [
            listen(Odometry, "odom", self._store_place),
            listen(JointTrajectory, "joint_trajectory", self._store_target),
            listen(Float64MultiArray, f"{controller}/policy_step", self._store_step),
        ]
        store = _store_stamped if stamped else _store_velocity
        for topics in remote.sources:
            source = self.moment.commands.add_source(topics.name)
            kind = TwistStamped if stamped else Twist
            self._parts.append(listen(kind, topics.velocity, partial(store, source)))
            self._parts.append(listen(Pose, topics.pose, partial(_store_pose, source)))

    def receive(self) -> Moment:
        """The newest of everything, without waiting."""
        self._states.receive(NEVER, time.monotonic())
        for part in self._parts:
            part.store(NEVER)
        return self.moment

    def _store_place(self, odom: Odometry, received: float) -> None:
        place, motion = odom.pose.pose, odom.twist.twist
        position = np.array([place.position.x, place.position.y, place.position.z])
        turn = place.orientation
        orientation = np.array([turn.x, turn.y, turn.z, turn.w])
        velocity = (motion.linear.x, motion.linear.y, motion.angular.z)
        if np.isfinite([*position, *orientation, *velocity]).all():
            self.moment.place, self.moment.placed = Place(position, orientation, velocity), received

    def _store_target(self, trajectory: JointTrajectory, received: float) -> None:
        if not trajectory.points:
            return
        point = trajectory.points[0]
        try:
            self.moment.target = joint_command(trajectory.joint_names, point.positions, point.velocities, point.effort)
        except RefusedCommandError:
            return  # the robot's bridge tells
        self.moment.targeted = received

    def _store_step(self, step: Float64MultiArray, received: float) -> None:
        if len(step.data) == SIZE and all(map(math.isfinite, step.data)):
            self.moment.obeyed, self.moment.told = np.array(step.data[WANTED]), received


def _store_velocity(source: CommandSource, twist: Twist, received: float) -> None:
    source.set_velocity(twist.linear.x, twist.linear.y, twist.angular.z, received)


def _store_stamped(source: CommandSource, message: TwistStamped, received: float) -> None:
    _store_velocity(source, message.twist, received)


def _store_pose(source: CommandSource, pose: Pose, received: float) -> None:
    turn = pose.orientation
    source.set_pose(pose.position.z, (turn.x, turn.y, turn.z, turn.w), received)
