"""Publishes where a simulated robot really is."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from nav_msgs.msg import Odometry
from rclpy.node import Node

from quadruped_sim.live_robot import GroundTruth
from sim_bridge.message_fields import fill_quaternion, fill_vector

WORLD_FRAME = "odom"
TRUNK_FRAME = "base_link"


class OdomPublisher:
    """odom of one robot; the message is made once and filled again."""

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(Odometry, "odom", 10)  # reliable, as RViz wants it
        self._odom = Odometry(child_frame_id=TRUNK_FRAME)
        self._odom.header.frame_id = WORLD_FRAME

    def publish(self, truth: GroundTruth, stamp: Time) -> None:
        """Publish one place, taken at `stamp`."""
        self._odom.header.stamp = stamp
        place, motion = self._odom.pose.pose, self._odom.twist.twist
        place.position.x, place.position.y, place.position.z = truth.position.tolist()
        fill_quaternion(place.orientation, truth.orientation)
        fill_vector(motion.linear, truth.linear_velocity)
        fill_vector(motion.angular, truth.angular_velocity)
        self._publisher.publish(self._odom)
