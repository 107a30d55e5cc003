"""Publishes the robot's wireless remote as a joystick."""

from __future__ import annotations

from array import array

from rclpy.node import Node
from sensor_msgs.msg import Joy

from unitree_lowlevel.messages import BUTTONS, decode_remote

REMOTE_FRAME = "unitree_remote"  # by which whoever reads joy knows the layout, see config/remote.yaml


class RemotePublisher:
    """joy: axes lx, ly, rx, ry (right and forward are positive, -1 to 1) and L2; the 16 buttons in BUTTONS' order."""

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(Joy, "joy", 1)
        self._clock = node.get_clock()
        self._message = Joy()
        self._message.header.frame_id = REMOTE_FRAME

    def publish(self, remote: bytes) -> None:
        """Publish the 40 bytes of a remote."""
        state = decode_remote(remote)
        self._message.header.stamp = self._clock.now().to_msg()
        self._message.axes = array("f", (state.lx, state.ly, state.rx, state.ry, state.L2))
        self._message.buttons = array("i", (name in state.buttons for name in BUTTONS))
        self._publisher.publish(self._message)

    def destroy(self, node: Node) -> None:
        """Stop publishing."""
        node.destroy_publisher(self._publisher)
