"""Drives a robot from joysticks: reads joy, publishes velocity and pose, and calls the controller's services."""

import time
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from builtin_interfaces.msg import Time as Stamp
from rclpy.clock import ROSClock
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from rclpy.time import Time
from sensor_msgs.msg import Joy

from fcnet_core.control.timing import NEVER
from fcnet_core.names import Request
from fcnet_core.robot import CommandRange, load_robot
from fcnet_ros.health import OK, PERIOD, WARN, HealthPublisher
from fcnet_ros.one_publisher import IdentifiedMessages
from fcnet_ros.parameters import declare_fixed_parameters
from fcnet_ros.program import Stop, run_program, spin
from fcnet_ros.topics import JOY, WARNING_PERIOD, steady_timer
from fcnet_teleop.commands import CommandPublisher, ModeClient
from fcnet_teleop.controls import POSE, VELOCITY, Command, Controls, RemoteControl, load_remote_control
from fcnet_teleop.parameters import JoyParameters

SOURCE = "joystick"
NO_STAMP = Stamp()
Key = tuple[str, Hashable]  # of a joystick: frame_id and identity of the publisher
POLL_PERIOD = 0.01  # [s] between checks of joy_timeout and of new messages
MAX_STEP = 0.1  # [s] maximum time step of a pose change by a held button


@dataclass(frozen=True)
class JoyCommand(Command):
    """The command of one message. driving: the deadman button is held. problem: why the message is invalid, or ""."""

    requests: tuple[Request, ...] = ()
    driving: bool = False
    problem: str = ""


class JoyReader:
    """Reads the messages of one joystick; keeps its state, so that a press counts once and a release stops once.

    layout: the name of its layout. silence: time [s] without a message. problem: of the last message. The deadman
    button counts from its first press: a joystick that connects, or is sound again, with it held drives nothing.
    """

    def __init__(self, remote: RemoteControl, layout: str, ranges: dict[str, CommandRange]) -> None:
        self.silence, self.problem = 0.0, ""
        self._remote, self._layout, self._ranges = remote, layout, ranges
        self._joystick = remote.joystick
        self._pose = dict.fromkeys(POSE, 0.0)
        self._time, self._driving, self._may_drive = NEVER, False, False
        self._stops: frozenset[frozenset[str]] = frozenset()
        self._held: frozenset[str] | None = None  # functions; None: unknown, so no button counts as just pressed

    def take(self, axes: Sequence[float], buttons: Sequence[int], now: float, doubt: str = "") -> JoyCommand:
        """Read the message received at time `now` [s]. doubt: why it does not show the current state.

        An invalid message counts as released, except for an emergency stop in it.
        """
        controls = self._remote.layouts[self._layout].read(axes, buttons)
        problem = self._remote.reason_to_doubt(self._layout, axes, buttons) or doubt
        stops = frozenset(chord for chord in self._joystick.emergency_stop if chord <= controls.pressed)
        pressed_stop = (Request.EMERGENCY_STOP,) if stops - self._stops else ()
        if problem or stops:
            command = replace(self.release(), requests=pressed_stop, problem=problem)
        else:
            command = self._command(controls, now)
        self._stops, self._time = stops, now
        self.silence, self.problem = 0.0, command.problem
        return command

    def release(self) -> JoyCommand:
        """Release all controls, as after a timeout; return zero velocity once if the robot was driven."""
        command = JoyCommand(velocity=self._last_velocity())
        self._driving = self._may_drive = False
        self._held, self._stops = None, frozenset()
        return command

    def _command(self, controls: Controls, now: float) -> JoyCommand:
        held = {name: chord for name, chord in self._joystick.meanings if chord <= controls.pressed}
        largest = {name for name, chord in held.items() if not any(chord < other for other in held.values())}
        new = largest - self._held if self._held is not None else set()
        requests = tuple(Request(name) for name in self._joystick.requests if name in new)
        self._may_drive |= "deadman" not in held
        driving, problem = self._may_drive and "deadman" in held, ""
        if not self._may_drive:
            button = "+".join(sorted(self._joystick.deadman))
            problem = f"{button} is held since before the joystick could be used; let go of it, then press it to drive"
        pose = self._change_pose(largest, new, min(now - self._time, MAX_STEP)) if driving else None
        velocity = self._velocity(controls, held) if driving else self._last_velocity()
        if Request.RESET in requests:
            self._pose = dict.fromkeys(POSE, 0.0)  # as the controller does
        self._driving, self._held = driving, frozenset(held)
        return JoyCommand(velocity, pose, requests, driving, problem)

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
    """All joysticks, by frame_id and publisher. Only the one with the deadman button held first drives.

    layout: name of the layout for other frame_ids than those of the layouts. timeout: time [s] without a message after
    which a joystick counts as released. Raises ValueError for an unknown layout.
    """

    def __init__(self, remote: RemoteControl, layout: str, ranges: dict[str, CommandRange], timeout: float) -> None:
        self._remote, self._ranges, self._timeout = remote, ranges, timeout
        if layout not in remote.layouts:
            raise ValueError(f"there is no joystick layout {layout!r}; known are {', '.join(remote.layouts)}")
        self._other = layout
        self._by_frame = {each.frame_id: name for name, each in remote.layouts.items() if each.frame_id}
        self._readers: dict[Key, JoyReader] = {}
        self._driver: Key | None = None

    def layout(self, frame_id: str) -> str:
        """Return the name of the layout of messages with this frame_id."""
        return self._by_frame.get(frame_id, self._other)

    def take(self, key: Key, axes: Sequence[float], buttons: Sequence[int], now: float, doubt: str = "") -> JoyCommand:
        """Read a message received at time `now` [s]; only the driver's command has a velocity or a pose."""
        if key not in self._readers:
            self._readers[key] = JoyReader(self._remote, self.layout(key[0]), self._ranges)
        return self._of_driver(key, self._readers[key].take(axes, buttons, now, doubt))

    def release_silent(self, elapsed: float) -> list[tuple[str, JoyCommand]]:
        """Release joysticks that exceed the timeout after `elapsed` [s] more; return their frame_ids and commands."""
        released = []
        for key, reader in self._readers.items():
            before, reader.silence = reader.silence, reader.silence + elapsed
            if before <= self._timeout < reader.silence:
                released.append((key[0], self._of_driver(key, reader.release())))
        return released

    def status(self) -> tuple[str, str]:
        """Return the problem of the joysticks in use, or of all if they are silent, or ""; and what they do."""
        heard = {key: reader for key, reader in self._readers.items() if reader.silence <= self._timeout}
        problem = "; ".join(f"{each.problem} (frame_id {key[0]!r})" for key, each in heard.items() if each.problem)
        if self._readers and not heard:
            problem = f"no joystick has sent a message for more than {self._timeout:g} s"
        return problem, "driving" if self._driver else "ready" if heard else "waiting for a joystick"

    def _of_driver(self, key: Key, command: JoyCommand) -> JoyCommand:
        if self._driver not in (None, key):
            return replace(command, velocity=None, pose=None)
        self._driver = key if command.driving else None
        return command


class TeleopJoy(Node):
    """Turns joy messages into commands and requests. Raises ValueError for a parameter that cannot be used."""

    def __init__(self) -> None:
        super().__init__("teleop_joy")
        chosen = declare_fixed_parameters(self, JoyParameters)
        self._remote = remote = load_remote_control(chosen.remote_file)
        self._timeout = chosen.joy_timeout
        self._joysticks = Joysticks(remote, chosen.layout, load_robot(chosen.robot).commands, self._timeout)
        self._checks, self._held = chosen.check, set[str]()
        self._is_waiting = True
        self._messages = IdentifiedMessages(self, JOY)
        self._polled = time.monotonic()
        steady_timer(self, POLL_PERIOD, self._receive)
        self.get_logger().info(
            f"waiting for a joystick on {self.resolve_topic_name(JOY.name)}: a robot's bridge publishes its remote, "
            "`ros2 run joy joy_node` (of a ROS distribution) any gamepad"
        )
        if chosen.check:
            self.get_logger().info("check: nothing is commanded, not even an emergency stop; press each button in turn")
            return
        self._commands = CommandPublisher(self, remote.source(SOURCE), chosen.use_stamped_cmd_vel)
        self._modes = ModeClient(self, chosen.controller, chosen.bridge, self.get_logger().info)
        self._health = HealthPublisher(self)
        steady_timer(self, PERIOD, self._report)

    def run(self, stop: Stop) -> int:
        """Receive messages until `stop` is set, then release all joysticks: a driven robot gets zero velocity."""
        spin(self, stop)
        if any(command.velocity is not None for _, command in self._joysticks.release_silent(float("inf"))):
            self._commands.stop()
        return 0

    def _receive(self) -> None:
        self._release_silent()
        for _ in range(JOY.requested.depth):
            if (taken := self._messages.take()) is None:
                return
            content, _, sender = taken
            if len(content) <= JOY.limit:
                self._take(deserialize_message(content, Joy), sender)
            else:
                self._warn(f"a message of more than {JOY.limit} bytes on joy is ignored")

    def _take(self, message: Joy, sender: Hashable) -> None:
        frame_id, axes, buttons = message.header.frame_id, message.axes, message.buttons
        layout = self._joysticks.layout(frame_id)
        if self._is_waiting:
            self._is_waiting = False
            self.get_logger().info(f"connected to the joystick {frame_id!r}; its layout is {layout}")
        if self._checks:
            before, self._held = self._held, self._remote.held(layout, axes, buttons)
            for line in sorted(self._held - before):
                self.get_logger().info(line)
            if problem := self._remote.reason_to_doubt(layout, axes, buttons):
                self._warn(problem)
            return
        doubt = self._reason_to_doubt(message)
        command = self._joysticks.take((frame_id, sender), axes, buttons, time.monotonic(), doubt)
        self._publish(command)
        if command.problem:
            self._warn(f"{command.problem}; it counts as released (frame_id {frame_id!r})")

    def _warn(self, text: str) -> None:
        self.get_logger().warning(text, throttle_duration_sec=WARNING_PERIOD)

    def _report(self) -> None:
        problem, state = self._joysticks.status()
        self._health.publish(WARN if problem else OK, problem or state, {})

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

    def _release_silent(self) -> None:
        """Release silent joysticks, and all after a pause of this process, in which the robot has stopped. A shorter
        pause does not count: messages of that time are still unread.
        """
        now = time.monotonic()
        elapsed, self._polled = now - self._polled, now
        elapsed = elapsed if elapsed > self._timeout else min(elapsed, 2 * POLL_PERIOD)
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
    return run_program("teleop_joy", TeleopJoy, TeleopJoy.run)
