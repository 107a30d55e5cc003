"""Listens to what a robot's bridge says about itself."""

from __future__ import annotations

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from fcnet_controller.control_core import ControlCore


class BridgeListener:
    """robot_fault, why it has stopped the robot, and robot_obstacle, why it would not follow targets now; both latched.

    In words, or nothing while all is well; a simulated robot publishes neither.
    """

    def __init__(self, node: Node, core: ControlCore) -> None:
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        topics = {"robot_fault": core.take_robot_fault, "robot_obstacle": core.take_robot_obstacle}
        self._subscriptions = [
            node.create_subscription(String, topic, lambda message, take=take: take(message.data), latched)
            for topic, take in topics.items()
        ]

    def destroy(self, node: Node) -> None:
        """Stop listening."""
        for subscription in self._subscriptions:
            node.destroy_subscription(subscription)
