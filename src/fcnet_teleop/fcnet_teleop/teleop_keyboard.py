"""Drives a robot from the keyboard: publishes velocity and pose, and calls the controller's services."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from fcnet_core.robot import load_robot
from fcnet_ros.parameters import declare_fixed_parameters
from fcnet_ros.program import SIGNALS, refused, run_program
from fcnet_teleop.commands import CommandPublisher, ModeClient, TeleopParameters
from fcnet_teleop.keyboard import KeyboardCommand, describe
from fcnet_teleop.remote import load_remote_control
from fcnet_teleop.terminal import StatusDisplay, open_keyboard

NAME = "teleop_keyboard"
SOURCE = "keyboard"
PUBLISH_PERIOD = 0.1  # [s]


class TeleopKeyboard(Node):
    """Turns keys into messages and shows mode, command and responses. Raises ValueError for unusable parameters."""

    def __init__(self) -> None:
        super().__init__(NAME)
        chosen = declare_fixed_parameters(self, TeleopParameters)
        remote = load_remote_control(chosen.remote_file)
        self._help = describe(remote.keyboard)
        self._command = KeyboardCommand(remote.keyboard, load_robot(chosen.robot).commands)
        self._mode = "no controller"
        self._display = StatusDisplay()
        self._publisher = CommandPublisher(self, remote.source(SOURCE), chosen.use_stamped_cmd_vel)
        self._modes = ModeClient(self, chosen.controller, chosen.bridge, self._display.print)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, f"{chosen.controller}/mode", self._set_mode, latched)

    def drive(self, keys: Callable[[float], list[str]], stop: threading.Event) -> None:
        """Read keys and publish at 10 Hz until `stop` is set; a robot being driven gets a velocity of zero then."""
        self._display.print(self._help)
        due = time.monotonic()
        try:
            while not stop.is_set():
                for key in keys(max(due - time.monotonic(), 0.0)):
                    if request := self._command.press(key, time.monotonic()):
                        self._modes.request(request)
                rclpy.spin_once(self, timeout_sec=0.0)
                if time.monotonic() >= due:
                    due += PUBLISH_PERIOD
                    self._publish()
                self._display.show(f"{self._mode:<13}  {self._command}")
        finally:
            if self._command.has_velocity(time.monotonic()):
                self._publisher.stop()

    def _publish(self) -> None:
        """Publish nothing where no key has been pressed for a while."""
        if self._command.has_velocity(time.monotonic()):
            self._publisher.publish_velocity(self._command.setpoint)
        if self._command.has_pose(time.monotonic()):
            self._publisher.publish_pose(self._command.setpoint)

    def _set_mode(self, message: String) -> None:
        self._mode = message.data


def main() -> int:
    """Run the teleoperation until Ctrl-C, or until its terminal is closed."""
    return run_program(NAME, TeleopKeyboard, _run, signals=(*SIGNALS, signal.SIGHUP))


def _run(node: TeleopKeyboard, stop: threading.Event) -> int:
    try:
        with open_keyboard() as keys:
            node.drive(keys, stop)
    except OSError as error:
        return refused(NAME, error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
