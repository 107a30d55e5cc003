"""Offers the robot's bridge the gains that the policy was trained with."""

from __future__ import annotations

import json

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from fcnet_core.policy_card import PolicyCard


class GainsPublisher:
    """joint_gains, latched: {"kp": {joint: stiffness [Nm/rad]}, "kd": {joint: damping [Nms/rad]}} as JSON.

    The bridge bounds them by the robot file; a simulated robot has those of the robot file anyway.
    """

    def __init__(self, node: Node, card: PolicyCard) -> None:
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._publisher = node.create_publisher(String, "joint_gains", latched)
        gains = {
            "kp": dict(zip(card.joint_names, card.kp, strict=True)),
            "kd": dict(zip(card.joint_names, card.kd, strict=True)),
        }
        self._publisher.publish(String(data=json.dumps(gains)))

    def destroy(self, node: Node) -> None:
        """Stop offering."""
        node.destroy_publisher(self._publisher)
