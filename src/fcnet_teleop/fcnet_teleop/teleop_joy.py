"""Drives a robot from joysticks: reads joy, publishes velocity and pose, and calls the controller's services."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import cast

from builtin_interfaces.msg import Time as Stamp
from rclpy.clock import ROSClock
from rclpy.node import Node
from rclpy.time import Time
from sensor_msgs.msg import Joy

from fcnet_core.control.timing import NEVER
from fcnet_core.names import Request
from fcnet_core.robot import CommandRange, load_robot
from fcnet_ros.parameters import declare_fixed_parameters
from fcnet_ros.program import Stop, run_program, spin
from fcnet_ros.topics import JOY, WARNING_PERIOD
from fcnet_teleop.commands import CommandPublisher, ModeClient, steady_timer
from fcnet_teleop.controls import (
    POSE,
    VELOCITY,
    Command,
    Controls,
    JoyLayout,
    Joystick,
    RemoteControl,
    load_remote_control,
)
from fcnet_teleop.parameters import JoyParameters

SOURCE = "joystick"
CHECK_PERIOD = 0.05  # [s] between checks of joy_timeout
NO_STAMP = Stamp()
MAX_STEP = 0.1  # [s] maximum time step of a pose change by a held button


@dataclass(frozen=True)
class JoyCommand(Command):
    """The command of one message. driving: the deadman button is held. problem: why the message is invalid, or ""."""

    requests: tuple[Request, ...] = ()
    driving: bool = False
    problem: str = ""


class JoyReader:
    """Reads the messages of one joystick; keeps its state, so that a press counts once and a release stops once.

    silence: time [s] without a message. is_released: whether it was released after the last message.
    """

    def __init__(self, joystick: Joystick, layout: JoyLayout, ranges: dict[str, CommandRange]) -> None:
        self.silence, self.is_released = 0.0, False
        self._joystick, self._layout, self._ranges = joystick, layout, ranges
        self._pose = dict.fromkeys(POSE, 0.0)
        self._time, self._driving = NEVER, False
        self._stops: frozenset[frozenset[str]] = frozenset()
        self._held: frozenset[str] | None = None  # functions; None: unknown, so no button counts as just pressed

    def take(self, axes: Sequence[float], buttons: Sequence[int], now: float, problem: str = "") -> JoyCommand:
        """Read the message received at time `now` [s]. problem: why it does not show the current state.

        An invalid message counts as released, except for an emergency stop in it.
        """
        controls = self._layout.read(axes, buttons)
        problem = problem or controls.problem
        stops = frozenset(chord for chord in self._joystick.emergency_stop if chord <= controls.pressed)
        pressed_stop = (Request.EMERGENCY_STOP,) if stops - self._stops else ()
        if problem or stops:
            command = replace(self.release(), requests=pressed_stop, problem=problem)
        else:
            command = self._command(controls, now)
        self._stops, self._time = stops, now
        self.silence, self.is_released = 0.0, False
        return command

    def release(self) -> JoyCommand:
        """Release all controls, as after a timeout; return zero velocity once if the robot was driven."""
        command = JoyCommand(velocity=self._last_velocity())
        self._driving, self._held, self._stops = False, None, frozenset()
        self.is_released = True
        return command

    def _command(self, controls: Controls, now: float) -> JoyCommand:
        held = {name: chord for name, chord in self._joystick.meanings if chord <= controls.pressed}
        largest = {name for name, chord in held.items() if not any(chord < other for other in held.values())}
        new = largest - self._held if self._held is not None else set()
        requests = tuple(Request(name) for name in self._joystick.requests if name in new)
        driving = "deadman" in held
        pose = self._change_pose(largest, new, min(now - self._time, MAX_STEP)) if driving else None
        velocity = self._velocity(controls, held) if driving else self._last_velocity()
        if Request.RESET in requests:
            self._pose = dict.fromkeys(POSE, 0.0)  # as the controller does
        self._driving, self._held = driving, frozenset(held)
        return JoyCommand(velocity, pose, requests, driving)

    def _last_velocity(self) -> dict[str, float] | None:
        return dict.fromkeys(VELOCITY, 0.0) if self._driving else None

    def _velocity(self, controls: Controls, held: Collection[str]) -> dict[str, float]:
        fraction = self._joystick.speed["slow" if "slow" in held else "fast" if "fast" in held else "normal"]
        dead_zone, expo, velocity = self._joystick.dead_zone, self._joystick.expo, {}
        for field, axis in self._joystick.velocity.items():
            value, limits = controls.value(axis), self._ranges[field]
            beyond = max(abs(value) - dead_zone, 0.0) / (1.0 - dead_zone)
            share = fraction * ((1.0 - expo) * beyond + expo * beyond**3)  # of the range, from 0 to fraction
            velocity[field] = share * (limits.highest if value > 0 else limits.lowest)
        return velocity

    def _change_pose(self, held: set[str], new: set[str], duration: float) -> dict[str, float] | None:
        """Return the pose after the pose buttons were held for `duration` [s]; None if none is held."""
        directions = {field: (f"raise {field}" in held) - (f"lower {field}" in held) for field in POSE}
        if "level" in new:
            self._pose = dict.fromkeys(POSE, 0.0)
        elif not any(directions.values()):
            return None
        else:
            for field, direction in directions.items():
                limits = self._ranges[field]
                moved = self._pose[field] + direction * self._joystick.pose_speed * limits.rate * duration
                self._pose[field] = limits.clip(moved)
        return dict(self._pose)


class Joysticks:
    """All joysticks, by the frame_id of their messages. Only the one with the deadman button held first drives.

    layout: name of the layout for other frame_ids than those of the layouts. timeout: time [s] without a message after
    which a joystick counts as released. Raises ValueError for an unknown layout.
    """

    def __init__(self, remote: RemoteControl, layout: str, ranges: dict[str, CommandRange], timeout: float) -> None:
        self._joystick, self._ranges, self._timeout = remote.joystick, ranges, timeout
        if layout not in remote.layouts:
            raise ValueError(f"there is no joystick layout {layout!r}; known are {', '.join(remote.layouts)}")
        self._other = remote.layouts[layout]
        self._layouts = {each.frame_id: each for each in remote.layouts.values() if each.frame_id}
        self._readers: dict[str, JoyReader] = {}
        self._driver: str | None = None

    def take(
        self, frame_id: str, axes: Sequence[float], buttons: Sequence[int], now: float, problem: str = ""
    ) -> JoyCommand:
        """Read a message received at time `now` [s]; only the driver's command has a velocity or a pose."""
        if frame_id not in self._readers:
            layout = self._layouts.get(frame_id, self._other)
            self._readers[frame_id] = JoyReader(self._joystick, layout, self._ranges)
        return self._of_driver(frame_id, self._readers[frame_id].take(axes, buttons, now, problem))

    def release_silent(self, elapsed: float) -> list[tuple[str, JoyCommand]]:
        """Release joysticks that exceed the timeout after `elapsed` [s] more; return their frame_ids and commands."""
        released = []
        for frame_id, reader in self._readers.items():
            reader.silence += elapsed
            if reader.silence > self._timeout and not reader.is_released:
                released.append((frame_id, self._of_driver(frame_id, reader.release())))
        return released

    def _of_driver(self, frame_id: str, command: JoyCommand) -> JoyCommand:
        if self._driver not in (None, frame_id):
            return replace(command, velocity=None, pose=None)
        self._driver = frame_id if command.driving else None
        return command


class TeleopJoy(Node):
    """Turns joy messages into commands and requests. Raises ValueError for a parameter that cannot be used."""

    def __init__(self) -> None:
        super().__init__("teleop_joy")
        chosen = declare_fixed_parameters(self, JoyParameters)
        remote = load_remote_control(chosen.remote_file)
        self._timeout = chosen.joy_timeout
        self._joysticks = Joysticks(remote, chosen.layout, load_robot(chosen.robot).commands, self._timeout)
        self._commands = CommandPublisher(self, remote.source(SOURCE), chosen.use_stamped_cmd_vel)
        self._modes = ModeClient(self, chosen.controller, chosen.bridge, self.get_logger().info)
        JOY.subscribe(self, self._take)
        self._is_waiting = True
        self.get_logger().info(
            f"waiting for a joystick on {self.resolve_topic_name(JOY.name)}: a robot's bridge publishes its remote, "
            "`ros2 run joy joy_node` (of a ROS distribution) any gamepad"
        )
        self._checked = time.monotonic()
        steady_timer(self, CHECK_PERIOD, self._check_timeout)

    def release(self) -> None:
        """Release all joysticks: a driven robot gets zero velocity."""
        if any(command.velocity is not None for _, command in self._joysticks.release_silent(float("inf"))):
            self._commands.stop()

    def _take(self, message: Joy) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self.get_logger().info(f"connected to the joystick {message.header.frame_id!r}")
        frame_id, problem = message.header.frame_id, self._reason_to_doubt(message)
        command = self._joysticks.take(frame_id, message.axes, message.buttons, time.monotonic(), problem)
        self._publish(command)
        if command.problem:
            self.get_logger().warning(
                f"{command.problem}; it counts as released (frame_id {frame_id!r})",
                throttle_duration_sec=WARNING_PERIOD,
            )

    def _reason_to_doubt(self, message: Joy) -> str:
        """Return why a message is not current, as one of a bag that is played back; "" for a current one.

        In simulated time the clock of a joystick's driver is unknown.
        """
        clock = cast(ROSClock, self.get_clock())
        if clock.ros_time_is_active:
            return ""
        age = (clock.now() - Time.from_msg(message.header.stamp, clock_type=clock.clock_type)).nanoseconds / 1e9
        if abs(age) <= self._timeout:
            return ""
        if message.header.stamp == NO_STAMP:
            return "the joystick's messages have no stamp; make its driver set header.stamp"
        return (
            f"the joystick's message is {abs(age):.1f} s {'old' if age > 0 else 'ahead of this clock'}, the limit is "
            f"{self._timeout:g} s; stop the playback of the bag, or synchronise the computers' clocks (chrony)"
        )

    def _check_timeout(self) -> None:
        """Release silent joysticks. Pauses of this process do not count: messages of that time are still unread."""
        now = time.monotonic()
        elapsed, self._checked = min(now - self._checked, 2 * CHECK_PERIOD), now
        for frame_id, command in self._joysticks.release_silent(elapsed):
            self._publish(command)
            self.get_logger().warning(
                f"joystick {frame_id!r} has been silent for {self._timeout:g} s and counts as released; "
                "check its battery and cable (joy_node: autorepeat_rate must not be 0)"
            )

    def _publish(self, command: JoyCommand) -> None:
        for request in command.requests:
            self.get_logger().info(f"{request.value} requested by joystick")
            self._modes.request(request)
        self._commands.publish(command)


def main() -> int:
    """Run the teleoperation until a signal; return the exit code, 2 for a wrong parameter or remote file."""
    return run_program("teleop_joy", TeleopJoy, _run)


def _run(node: TeleopJoy, stop: Stop) -> int:
    spin(node, stop)
    node.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
