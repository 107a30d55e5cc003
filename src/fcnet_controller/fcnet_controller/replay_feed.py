"""Brings what is played of a bag to the replay: topics in the namespace of the node."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from geometry_msgs.msg import Pose, Twist
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from fcnet_controller.replay_bag import STEPS
from fcnet_controller.replay_player import TARGETS, recorded
from fcnet_controller.replay_steps import ReplaySteps
from fcnet_controller.replay_subscription import ReplaySubscription
from fcnet_controller.replay_walk import ReplayWalk
from fcnet_core.command_source import CommandSource
from fcnet_core.policy_step import SCALARS, SIZE, PolicyStep
from fcnet_core.remote_map import load_remote_map


class StepsFeed:
    """For a bag that tells the steps of a policy."""

    def __init__(self, node: Node, replay: ReplaySteps, tell: Callable[[str], None]) -> None:
        self.replay = replay
        self._tell = tell
        self._steps = ReplaySubscription(node, Float64MultiArray, recorded(STEPS))
        self._parts = (
            (ReplaySubscription(node, JointTrajectory, recorded(TARGETS)), replay.targets),
            (ReplaySubscription(node, Imu, "imu/data"), replay.imu),
            (ReplaySubscription(node, JointState, "joint_states"), replay.joints),
        )

    def take(self) -> int:
        """Take what has come; the number of messages. Steps first: what they saw has been sent before them."""
        steps, now = self._steps.take(), time.monotonic()
        for step in filter(None, map(self._read, steps)):
            self.replay.add(step, now)
        count = len(steps)
        for subscription, messages in self._parts:
            contents = subscription.take()
            count += len(contents)
            for content in contents:
                messages.add(content)
        return count

    def _read(self, content: bytes) -> PolicyStep | None:
        numbers = np.array(deserialize_message(content, Float64MultiArray).data)
        if len(numbers) != SIZE or not np.isfinite(numbers).all():
            self._tell(f"a {STEPS} does not have {SIZE} finite numbers and is left out")
            return None
        target, previous, joints, imu, cold = numbers[: len(SCALARS)].tolist()
        return PolicyStep(target, previous, joints, imu, cold > 0.5, numbers[len(SCALARS) :])


class WalkFeed:
    """For a bag of states and commands alone."""

    def __init__(self, node: Node, replay: ReplayWalk, tell: Callable[[str], None]) -> None:
        self.replay = replay
        self._tell = tell
        self._commands = [
            (ReplaySubscription(node, kind, recorded(topic)), kind, source)
            for topics in load_remote_map().sources
            for source in [replay.commands.add_source(topics.name)]
            for kind, topic in ((Twist, topics.velocity), (Pose, topics.pose))
        ]
        self._imu = ReplaySubscription(node, Imu, "imu/data")
        self._joints = ReplaySubscription(node, JointState, "joint_states")

    def take(self) -> int:
        """Take what has come; the number of messages."""
        count = 0
        for content in (joints := self._joints.take()):
            self.replay.add_joints(content, time.monotonic())
        for content in (imu := self._imu.take()):
            self.replay.imu.add(content)
        for subscription, kind, source in self._commands:
            contents = subscription.take()
            count += len(contents)
            for content in contents:
                self._command(source, deserialize_message(content, kind))
        return count + len(joints) + len(imu)

    def _command(self, source: CommandSource, message: Twist | Pose) -> None:
        if isinstance(message, Twist):
            velocity = (message.linear.x, message.linear.y, message.angular.z)
            problem = source.set_velocity(*velocity, self.replay.time)
        else:
            turn = message.orientation
            problem = source.set_pose(message.position.z, (turn.x, turn.y, turn.z, turn.w), self.replay.time)
        if problem:
            self._tell(problem)
