"""Drives a robot from joysticks: reads joy, publishes velocity and pose, and calls the controller's services."""

from __future__ import annotations

import sys
import threading
import time

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Joy

from fcnet_core.remote import REMOTE_FILE
from fcnet_core.robot import load_robot
from fcnet_ros.program import run_program, spin
from fcnet_teleop.commands import CommandPublisher, ModeClient
from fcnet_teleop.joystick import JoyOrder, Joysticks
from fcnet_teleop.remote import DEFAULT_LAYOUT, load_remote_control

SOURCE = "joystick"
AUTO = "auto"
SILENCE_PERIOD = 0.05  # [s] between two looks whether a joystick has fallen silent
QUIET = 2.0  # [s] between two warnings about the same
PARAMETERS = {
    "robot": ("aliengo", "robot to drive, for its command ranges: the name of a file in config/robots"),
    "controller": ("controller", "name of the controller's node"),
    "bridge": ("", "name of the bridge's node of a real robot, to stop and reset it as well; empty for none"),
    "layout": (AUTO, f"layout of joysticks whose frame_id is in none of the remote file; auto is {DEFAULT_LAYOUT}"),
    "joy_timeout": (0.5, "silence [s] after which a joystick counts as released"),
    "use_stamped_cmd_vel": (False, "send TwistStamped instead of Twist; as the controller's parameter of that name"),
    "remote_file": (str(REMOTE_FILE), "YAML file that says what the buttons mean"),
}


class TeleopJoy(Node):
    """Turns joy messages into commands and requests. Raises ValueError for a parameter that cannot be used."""

    def __init__(self) -> None:
        super().__init__("teleop_joy")
        values = {
            name: self.declare_parameter(name, default, ParameterDescriptor(description=description)).value
            for name, (default, description) in PARAMETERS.items()
        }
        if not 0.05 <= values["joy_timeout"] <= 5.0:
            raise ValueError(f"parameter joy_timeout is {values['joy_timeout']:g} s; give 0.05 to 5")
        remote = load_remote_control(values["remote_file"])
        layout = DEFAULT_LAYOUT if values["layout"] == AUTO else values["layout"]
        ranges = load_robot(values["robot"]).commands
        self._timeout = values["joy_timeout"]
        self._joysticks = Joysticks(remote, layout, ranges, self._timeout)
        self._commands = CommandPublisher(self, remote.source(SOURCE), values["use_stamped_cmd_vel"])
        self._modes = ModeClient(self, values["controller"], values["bridge"], self.get_logger().info)
        # Best effort listens to every kind of publisher; the depth keeps a press that is released at once.
        quality = QoSProfile(depth=20, reliability=ReliabilityPolicy.BEST_EFFORT)
        self.create_subscription(Joy, "joy", self._hear, quality)
        self._looked = time.monotonic()
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # goes on where simulated time stands still
        self.create_timer(SILENCE_PERIOD, self._look_for_silence, clock=steady)

    def let_go(self) -> None:
        """Release every joystick: a robot that is being driven gets a velocity of zero."""
        for _, order in self._joysticks.let_go_of_silent(float("inf")):
            self._obey(order)

    def _hear(self, message: Joy) -> None:
        order = self._joysticks.take(message.header.frame_id, message.axes, message.buttons, time.monotonic())
        self._obey(order)
        if order.problem:
            self.get_logger().warning(
                f"{order.problem}; it counts as released (frame_id {message.header.frame_id!r})",
                throttle_duration_sec=QUIET,
            )

    def _look_for_silence(self) -> None:
        """Time in which this process did not run is no silence: messages of that time are waiting to be read."""
        now = time.monotonic()
        listened, self._looked = min(now - self._looked, 2 * SILENCE_PERIOD), now
        for frame_id, order in self._joysticks.let_go_of_silent(listened):
            self._obey(order)
            told = (
                f"joystick {frame_id!r} has been silent for {self._timeout:g} s and counts as released; "
                "check its battery and cable (joy_node: autorepeat_rate must not be 0)"
            )
            if order.velocity is None:
                self.get_logger().info(told)
            else:
                self.get_logger().warning(told)

    def _obey(self, order: JoyOrder) -> None:
        for request in order.requests:
            self.get_logger().info(f"{request.value} asked by joystick")
            self._modes.ask(request)
        if order.velocity is not None:
            self._commands.send_velocity(order.velocity)
        if order.pose is not None:
            self._commands.send_pose(order.pose)


def main() -> int:
    """Run the teleoperation until a signal; the exit code is 2 where a parameter or the remote file is wrong."""
    return run_program("teleop_joy", TeleopJoy, _run)


def _run(node: TeleopJoy, stop: threading.Event) -> int:
    spin(node, stop)
    node.let_go()
    return 0


if __name__ == "__main__":
    sys.exit(main())
