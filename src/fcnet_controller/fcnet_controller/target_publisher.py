"""Publishes what the joints shall do."""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_controller.state_receiver import seconds
from fcnet_core.policy_step import LABEL, SIZE, PolicyStep
from fcnet_core.robot import JOINT_NAMES

NOTHING = array("d")
AT_REST = array("d", [0.0] * len(JOINT_NAMES))


class TargetPublisher:
    """joint_trajectory with one point: positions, or velocities of zero alone, which ask for damping.

    Besides, for recordings, ~/policy_step: what went into a step of the policy (fcnet_core/policy_step.py). A message
    is made once and filled again, by one thread at a time. depth: targets that are kept for a slow listener.
    """

    def __init__(self, node: Node, topic: str = "joint_trajectory", depth: int = 1) -> None:
        self._publisher = node.create_publisher(JointTrajectory, topic, QoSProfile(depth=depth))
        self._step_publisher = node.create_publisher(
            Float64MultiArray, "~/policy_step", QoSProfile(depth=max(depth, 10))
        )
        layout = MultiArrayLayout(dim=[MultiArrayDimension(label=LABEL, size=SIZE, stride=SIZE)])
        self._step = Float64MultiArray(layout=layout)
        self._clock = node.get_clock()
        self._point = JointTrajectoryPoint()
        self._previous_stamp = self._stamp = 0.0
        self._message = JointTrajectory(joint_names=list(JOINT_NAMES), points=[self._point])

    def publish(self, target: npt.NDArray[np.float64] | None, stamp: Time | None = None) -> None:
        """Send position targets (12,) [rad], or None for damping; stamp: None for now."""
        self._point.positions = NOTHING if target is None else array("d", target.tobytes())
        self._point.velocities = AT_REST if target is None else NOTHING
        self._message.header.stamp = self._clock.now().to_msg() if stamp is None else stamp
        self._publisher.publish(self._message)
        self._previous_stamp, self._stamp = self._stamp, seconds(self._message.header.stamp)

    def tell_step(self, step: PolicyStep) -> None:
        """Publish what led to the targets just sent."""
        stamped = replace(step, target_stamp=self._stamp, previous_stamp=self._previous_stamp)
        self._step.data = array("d", stamped.vector().tobytes())
        self._step_publisher.publish(self._step)

    def destroy(self, node: Node) -> None:
        """Stop publishing."""
        node.destroy_publisher(self._publisher)
        node.destroy_publisher(self._step_publisher)
