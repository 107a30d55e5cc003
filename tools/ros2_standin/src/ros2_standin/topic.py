"""What is known about a topic."""

from __future__ import annotations

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from .graph_node import wait_until


def absolute(name: str) -> str:
    """Return the name with its leading slash."""
    return name if name.startswith("/") else f"/{name}"


def type_of_topic(node: Node, name: str) -> str:
    """Return the type that others use for the topic; VerbError if nobody does."""
    found: dict[str, list[str]] = {}

    def known() -> bool:
        found.update(dict(node.get_topic_names_and_types()))
        return name in found

    wait_until(node, known, f"topic '{name}' does not exist: see `ros2 topic list`, or give its type")
    return found[name][0]


def matching_qos(node: Node, name: str) -> QoSProfile:
    """Return a profile that receives from every publisher of the topic, latched messages included."""
    publishers = [info.qos_profile for info in node.get_publishers_info_by_topic(name)]
    profile = QoSProfile(depth=10)
    if any(qos.reliability != ReliabilityPolicy.RELIABLE for qos in publishers):
        profile.reliability = ReliabilityPolicy.BEST_EFFORT
    if publishers and all(qos.durability == DurabilityPolicy.TRANSIENT_LOCAL for qos in publishers):
        profile.durability = DurabilityPolicy.TRANSIENT_LOCAL
    return profile
