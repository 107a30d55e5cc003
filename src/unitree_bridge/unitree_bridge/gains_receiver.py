"""Takes the gains that the controller offers."""

from __future__ import annotations

import math

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from unitree_bridge.joint_gains import UnreadableGainsError, read_gains
from unitree_lowlevel.driver import MotorDriver


class GainsReceiver:
    """joint_gains, latched. `state` tells which gains are used: the robot file's, those offered, or why none are."""

    def __init__(self, node: Node, driver: MotorDriver) -> None:
        self.state = "of the robot file"
        self._logger = node.get_logger()
        self._driver = driver
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._subscription = node.create_subscription(String, "joint_gains", self._take, latched)

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        node.destroy_subscription(self._subscription)

    def _take(self, message: String) -> None:
        try:
            gains = read_gains(message.data)
            problem = self._driver.set_gains(gains.kp, gains.kd)
        except UnreadableGainsError as error:
            self._driver.set_gains(math.nan, math.nan)  # which it refuses: no targets without the gains meant for them
            problem = str(error)
        self.state = f"refused: {problem}" if problem else "as offered on joint_gains"
        if problem:
            self._logger.error(f"gains refused: {problem}")
