"""Drives a robot from the keyboard: publishes cmd_vel and cmd_pose, and calls the controller's services."""

from __future__ import annotations

import math
import shutil
import signal
import sys
import threading
import time
from types import FrameType

import rclpy
from geometry_msgs.msg import Pose, Twist, TwistStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from fcnet_controller.key_reader import KeyReader, NoTerminalError
from fcnet_controller.keyboard_command import HELP, KeyboardCommand, Request
from fcnet_core.robot import load_robot

PUBLISH_PERIOD = 0.1  # [s]
CLEAR_LINE = "\r\x1b[2K"


class TeleopKeyboard(Node):
    """Turns keys into messages and shows, in one line, what is commanded and what the controller says."""

    def __init__(self) -> None:
        super().__init__("teleop_keyboard")
        robot = load_robot(self.declare_parameter("robot", "aliengo").value)
        controller = self.declare_parameter("controller", "controller").value
        self._stamped = self.declare_parameter("use_stamped_cmd_vel", False).value
        self.command = KeyboardCommand(robot.commands)
        self._mode, self._answer = "no answer", ""
        self._velocity = self.create_publisher(TwistStamped if self._stamped else Twist, "cmd_vel", 1)
        self._pose = self.create_publisher(Pose, "cmd_pose", 1)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, f"{controller}/mode", self._hear_mode, latched)
        self._requests = {
            request: self.create_client(
                SetBool if request is Request.EMERGENCY_STOP else Trigger, f"{controller}/{request.value}"
            )
            for request in Request
        }

    @property
    def status(self) -> str:
        """One line about mode and command."""
        return f"{self._mode:<11}  {self.command}"

    def take_answer(self) -> str:
        """What the controller has answered since this was last called; empty for nothing."""
        answer, self._answer = self._answer, ""
        return answer

    def ask(self, request: Request) -> None:
        """Call the service of that name; `take_answer` gives its answer when it has come."""
        service = self._requests[request]
        if not service.service_is_ready():
            self._answer = f"~/{request.value} is not there; is the controller running?"
            return
        stops = request is Request.EMERGENCY_STOP
        service.call_async(SetBool.Request(data=True) if stops else Trigger.Request()).add_done_callback(self._hear)

    def publish(self) -> None:
        """Send the command once."""
        setpoint, velocity, pose = self.command.setpoint, Twist(), Pose()
        velocity.linear.x, velocity.linear.y = setpoint["vx"], setpoint["vy"]
        velocity.angular.z = setpoint["yaw_rate"]
        pose.position.z = setpoint["height"]
        half_roll, half_pitch = setpoint["roll"] / 2, setpoint["pitch"] / 2
        pose.orientation.x = math.sin(half_roll) * math.cos(half_pitch)
        pose.orientation.y = math.cos(half_roll) * math.sin(half_pitch)
        pose.orientation.z = -math.sin(half_roll) * math.sin(half_pitch)
        pose.orientation.w = math.cos(half_roll) * math.cos(half_pitch)
        self._velocity.publish(self._stamp(velocity) if self._stamped else velocity)
        self._pose.publish(pose)

    def _stamp(self, velocity: Twist) -> TwistStamped:
        stamped = TwistStamped(twist=velocity)
        stamped.header.stamp = self.get_clock().now().to_msg()
        stamped.header.frame_id = "base_link"
        return stamped

    def _hear_mode(self, message: String) -> None:
        self._mode = message.data

    def _hear(self, future: Future) -> None:
        self._answer = future.result().message


def drive(node: TeleopKeyboard, keys: KeyReader, stop: threading.Event) -> None:
    """Read keys and publish at 10 Hz until `stop` is set; the last command is a velocity of zero."""
    due = time.monotonic()
    while not stop.is_set():
        for key in keys.keys(max(due - time.monotonic(), 0.0)):
            if request := node.command.press(key):
                node.ask(request)
        rclpy.spin_once(node, timeout_sec=0.0)
        if time.monotonic() >= due:
            due += PUBLISH_PERIOD
            node.publish()
        if answer := node.take_answer():
            print(f"{CLEAR_LINE}{answer}")
        width = shutil.get_terminal_size().columns - 1
        print(f"{CLEAR_LINE}{node.status[:width]}", end="", flush=True)
    node.command.press(" ")
    node.publish()
    print()


def main() -> int:
    """Run the teleoperation until Ctrl-C."""
    stop = threading.Event()

    def stop_on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop_on_signal)
    try:
        reader = KeyReader()
    except NoTerminalError as error:
        print(f"teleop_keyboard: {error}", file=sys.stderr)
        return 2
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    try:
        print(HELP)
        with reader as keys:
            drive(TeleopKeyboard(), keys, stop)
    except ValueError as error:
        print(f"teleop_keyboard: {error}", file=sys.stderr)
        return 2
    finally:
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
