"""Receives joint_trajectory only when the loop asks for it.

An executor's callback would run in another thread and compete with the loop for the interpreter just when a target has
come; so no executor handles this subscription: the middleware keeps the newest message, and the loop takes it.
"""

from __future__ import annotations

from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.joint_command import JointCommand, RefusedCommandError, joint_command

NEWEST_ONLY = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class TargetReceiver:
    """The newest command on joint_trajectory, for one thread."""

    def __init__(self, node: Node) -> None:
        self._subscription = node.create_subscription(
            JointTrajectory, "joint_trajectory", lambda _message: None, NEWEST_ONLY, callback_group=_OfNoExecutor()
        )

    def take(self) -> JointCommand | None:
        """The command that came since the last call, or None.

        Raises RefusedCommandError for one that cannot be followed.
        """
        with self._subscription.handle:
            taken = self._subscription.handle.take_message(JointTrajectory, False)
        return None if taken is None else _read(taken[0])

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        node.destroy_subscription(self._subscription)


def _read(message: JointTrajectory) -> JointCommand:
    if len(message.points) != 1:
        raise RefusedCommandError(f"joint_trajectory has {len(message.points)} points; send exactly one")
    point = message.points[0]
    return joint_command(message.joint_names, point.positions, point.velocities, point.effort)


class _OfNoExecutor(CallbackGroup):
    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        pass
