"""Drives a robot from joysticks: reads joy, publishes velocity and pose, and calls the controller's services."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass

from rclpy.node import Node
from sensor_msgs.msg import Joy

from fcnet_core.robot import load_robot
from fcnet_ros.parameters import declare_fixed_parameters, parameter
from fcnet_ros.program import run_program, spin
from fcnet_ros.topics import JOY
from fcnet_teleop.commands import CommandPublisher, ModeClient, TeleopParameters, steady_timer
from fcnet_teleop.joystick import JoyCommand, Joysticks
from fcnet_teleop.remote import DEFAULT_LAYOUT, load_remote_control

SOURCE = "joystick"
AUTO = "auto"
CHECK_PERIOD = 0.05  # [s] between two checks of joy_timeout
WARNING_PERIOD = 2.0  # [s] between two warnings about the same


@dataclass(frozen=True)
class JoyParameters(TeleopParameters):
    """The node's parameters."""

    layout: str = parameter(
        AUTO, f"layout of joysticks whose frame_id is in none of the remote file; auto is {DEFAULT_LAYOUT}"
    )
    joy_timeout: float = parameter(0.5, "silence [s] after which a joystick counts as released", (0.05, 5.0))


class TeleopJoy(Node):
    """Turns joy messages into commands and requests. Raises ValueError for a parameter that cannot be used."""

    def __init__(self) -> None:
        super().__init__("teleop_joy")
        chosen = declare_fixed_parameters(self, JoyParameters)
        remote = load_remote_control(chosen.remote_file)
        layout = DEFAULT_LAYOUT if chosen.layout == AUTO else chosen.layout
        self._timeout = chosen.joy_timeout
        self._joysticks = Joysticks(remote, layout, load_robot(chosen.robot).commands, self._timeout)
        self._commands = CommandPublisher(self, remote.source(SOURCE), chosen.use_stamped_cmd_vel)
        self._modes = ModeClient(self, chosen.controller, chosen.bridge, self.get_logger().info)
        JOY.subscribe(self, self._take)
        self._checked = time.monotonic()
        steady_timer(self, CHECK_PERIOD, self._check_timeout)

    def release(self) -> None:
        """Release every joystick: a robot that is being driven gets a velocity of zero."""
        if any(command.velocity is not None for _, command in self._joysticks.release_silent(float("inf"))):
            self._commands.stop()

    def _take(self, message: Joy) -> None:
        command = self._joysticks.take(message.header.frame_id, message.axes, message.buttons, time.monotonic())
        self._publish(command)
        if command.problem:
            self.get_logger().warning(
                f"{command.problem}; it counts as released (frame_id {message.header.frame_id!r})",
                throttle_duration_sec=WARNING_PERIOD,
            )

    def _check_timeout(self) -> None:
        """Time in which this process did not run does not count: messages of that time are waiting to be read."""
        now = time.monotonic()
        elapsed, self._checked = min(now - self._checked, 2 * CHECK_PERIOD), now
        for frame_id, command in self._joysticks.release_silent(elapsed):
            self._publish(command)
            message = (
                f"joystick {frame_id!r} has been silent for {self._timeout:g} s and counts as released; "
                "check its battery and cable (joy_node: autorepeat_rate must not be 0)"
            )
            if command.velocity is None:
                self.get_logger().info(message)
            else:
                self.get_logger().warning(message)

    def _publish(self, command: JoyCommand) -> None:
        for request in command.requests:
            self.get_logger().info(f"{request.value} requested by joystick")
            self._modes.request(request)
        self._commands.publish(command)


def main() -> int:
    """Run the teleoperation until a signal; the exit code is 2 where a parameter or the remote file is wrong."""
    return run_program("teleop_joy", TeleopJoy, _run)


def _run(node: TeleopJoy, stop: threading.Event) -> int:
    spin(node, stop)
    node.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
