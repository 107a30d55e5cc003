"""Hears from the robot's bridge that it obeys no more."""

from __future__ import annotations

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from fcnet_controller.control_core import ControlCore


class RobotFaultReceiver:
    """robot_fault, latched: a reason in words, or nothing while all is well; a simulated robot publishes none."""

    def __init__(self, node: Node, core: ControlCore) -> None:
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._subscription = node.create_subscription(
            String, "robot_fault", lambda message: core.take_robot_fault(message.data), latched
        )

    def destroy(self, node: Node) -> None:
        """Stop listening."""
        node.destroy_subscription(self._subscription)
