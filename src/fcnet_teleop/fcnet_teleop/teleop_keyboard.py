"""Drives a robot from the keyboard: publishes velocity and pose, and calls the controller's services."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from fcnet_core.remote import REMOTE_FILE
from fcnet_core.robot import load_robot
from fcnet_ros.program import SIGNALS, refused, run_program
from fcnet_teleop.commands import CommandPublisher, ModeClient
from fcnet_teleop.keyboard import KeyboardCommand, describe
from fcnet_teleop.remote import Request, load_remote_control
from fcnet_teleop.terminal import KeyReader

NAME = "teleop_keyboard"
SOURCE = "keyboard"
PUBLISH_PERIOD = 0.1  # [s]
CLEAR_LINE = "\r\x1b[2K"


class TeleopKeyboard(Node):
    """Turns keys into messages and shows, in one line, what is commanded and what the controller says."""

    def __init__(self) -> None:
        super().__init__(NAME)
        robot = load_robot(self.declare_parameter("robot", "aliengo").value)
        controller = self.declare_parameter("controller", "controller").value
        bridge = self.declare_parameter("bridge", "").value
        stamped = self.declare_parameter("use_stamped_cmd_vel", False).value
        remote = load_remote_control(self.declare_parameter("remote_file", str(REMOTE_FILE)).value)
        self.help = describe(remote.keyboard)
        self.command = KeyboardCommand(remote.keyboard, robot.commands)
        self._mode = "no answer"
        self._answers: list[str] = []
        self._commands = CommandPublisher(self, remote.source(SOURCE), stamped)
        self._modes = ModeClient(self, controller, bridge, self._answers.append)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, f"{controller}/mode", self._hear_mode, latched)

    @property
    def status(self) -> str:
        """One line about mode and command."""
        return f"{self._mode:<11}  {self.command}"

    def take_answers(self) -> list[str]:
        """What was answered to requests since this was last called."""
        answers = list(self._answers)
        self._answers.clear()
        return answers

    def ask(self, request: Request) -> None:
        """Ask the controller; `take_answers` gives its answer when it has come."""
        self._modes.ask(request)

    def publish(self, now: float) -> None:
        """Send what is to be sent at time `now` [s]: nothing while nobody has touched a key for a while."""
        if self.command.has_velocity(now):
            self._commands.send_velocity(self.command.setpoint)
        if self.command.has_pose(now):
            self._commands.send_pose(self.command.setpoint)

    def _hear_mode(self, message: String) -> None:
        self._mode = message.data


def drive(node: TeleopKeyboard, keys: KeyReader, stop: threading.Event) -> None:
    """Read keys and publish at 10 Hz until `stop` is set; a robot being driven gets a velocity of zero at the end."""
    due = time.monotonic()
    while not stop.is_set():
        for key in keys.keys(max(due - time.monotonic(), 0.0)):
            if request := node.command.press(key, time.monotonic()):
                node.ask(request)
        rclpy.spin_once(node, timeout_sec=0.0)
        if time.monotonic() >= due:
            due += PUBLISH_PERIOD
            node.publish(time.monotonic())
        for answer in node.take_answers():
            print(f"{CLEAR_LINE}{answer}")
        width = shutil.get_terminal_size().columns - 1
        print(f"{CLEAR_LINE}{node.status[:width]}", end="", flush=True)
    if node.command.has_velocity(time.monotonic()):
        node.command.halt(time.monotonic())
        node.publish(time.monotonic())
    print()


def main() -> int:
    """Run the teleoperation until Ctrl-C, or until its terminal is closed."""
    return run_program(NAME, TeleopKeyboard, _run, signals=(*SIGNALS, signal.SIGHUP))


def _run(node: TeleopKeyboard, stop: threading.Event) -> int:
    try:
        reader = KeyReader()
    except (ValueError, OSError) as error:
        return refused(NAME, error)
    print(node.help)
    with reader as keys:
        drive(node, keys, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
