"""Receives joint_trajectory when the loop asks for it."""

from __future__ import annotations

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.joint_command import JointCommand, RefusedCommandError, joint_command
from unitree_bridge.polled_subscription import PolledSubscription

NEWEST_ONLY = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class TargetReceiver:
    """The newest command on joint_trajectory, for one thread."""

    def __init__(self, node: Node) -> None:
        self._subscription = PolledSubscription(node, JointTrajectory, "joint_trajectory", NEWEST_ONLY)

    def take(self) -> JointCommand | None:
        """The command that came since the last call, or None.

        Raises RefusedCommandError for one that cannot be followed.
        """
        message = self._subscription.take()
        return None if message is None else _read(message)

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        self._subscription.destroy(node)


def _read(message: JointTrajectory) -> JointCommand:
    if len(message.points) != 1:
        raise RefusedCommandError(f"joint_trajectory has {len(message.points)} points; send exactly one")
    point = message.points[0]
    return joint_command(message.joint_names, point.positions, point.velocities, point.effort)
