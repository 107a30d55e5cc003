"""Drives a robot from the keyboard: publishes velocity and pose, and calls the controller's services."""

import time
from collections.abc import Callable, Sequence

from rclpy.node import Node
from std_msgs.msg import String

from fcnet_core.control.timing import NEVER
from fcnet_core.names import Mode, Request
from fcnet_core.robot import CommandRange, load_robot
from fcnet_ros.one_publisher import follow
from fcnet_ros.parameters import declare_fixed_parameters
from fcnet_ros.program import GuardedExecutor, Stop, refused, run_program
from fcnet_ros.topics import MODE
from fcnet_teleop.commands import CommandPublisher, ModeClient
from fcnet_teleop.controls import POSE, REQUESTS, VELOCITY, Command, Keyboard, load_remote_control
from fcnet_teleop.parameters import TeleopParameters
from fcnet_teleop.terminal import StatusDisplay, open_keyboard

NAME = "teleop_keyboard"
SOURCE = "keyboard"
PUBLISH_PERIOD = 0.1  # [s]
LINGER = 1.0  # [s] for which zero velocity is still published
PAUSE = 0.5  # [s] of this process, in which the robot has stopped
FIELDS = {  # directions of increase and decrease, unit
    "vx": ("forward", "backward", "m/s"),
    "vy": ("left", "right", "m/s"),
    "yaw_rate": ("turn left", "turn right", "rad/s"),
    "height": ("body higher", "lower", "m"),
    "roll": ("lean right", "left", "rad"),
    "pitch": ("nose down", "up", "rad"),
}


class KeyboardCommand:
    """The command accumulated from key presses, within a robot's command ranges.

    A velocity is published from the first change until it has been zero for LINGER, so that an unused keyboard does not
    block other sources; a pose for LINGER after a change.
    """

    def __init__(self, keys: Keyboard, ranges: dict[str, CommandRange]) -> None:
        self._ranges = ranges
        self._meanings = {key: meaning for meaning, names in keys.meanings for key in names}
        self._sizes = {field: step.size for field, step in keys.steps.items()}
        self._pressed = self._posed = NEVER
        self.setpoint = dict.fromkeys((*VELOCITY, *POSE), 0.0)

    def press(self, key: str, now: float) -> Request | None:
        """Apply a key, named as in the remote control file, at time `now` [s]; return its request, if any."""
        meaning = self._meanings.get(key, "")
        direction, _, field = meaning.partition(" ")
        cleared = {"halt": VELOCITY, "level": POSE}.get(meaning, ())
        self._clear(cleared)
        if field:
            step = self._sizes[field] if direction == "raise" else -self._sizes[field]
            self.setpoint[field] = self._ranges[field].clip(round(self.setpoint[field] + step, 6))
        if field or cleared:
            self._pressed = now
        if field in POSE or meaning == "level":
            self._posed = now
        if meaning not in REQUESTS:
            return None
        if meaning != Request.WALK:
            self._clear(VELOCITY)
        if meaning == Request.RESET:
            self._clear(POSE)  # as the controller does
        return Request(meaning)

    def release(self, now: float) -> bool:
        """Set the velocity to zero at time `now` [s]; return whether it was not zero."""
        moved = any(self.setpoint[field] for field in VELOCITY)
        self._pressed = now if moved else self._pressed
        self._clear(VELOCITY)
        return moved

    def stops(self, keys: list[str]) -> list[str]:
        """Return the keys that are an emergency stop."""
        return [key for key in keys if self._meanings.get(key) == Request.EMERGENCY_STOP]

    def command(self, now: float) -> Command:
        """Return the command to publish at time `now` [s]."""
        if any(self.setpoint[field] for field in VELOCITY):
            self._pressed = now
        velocity, pose = (
            {field: self.setpoint[field] for field in fields} if now - changed <= LINGER else None
            for fields, changed in ((VELOCITY, self._pressed), (POSE, self._posed))
        )
        return Command(velocity, pose)

    def __str__(self) -> str:
        vx, vy, yaw_rate, height, roll, pitch = self.setpoint.values()
        return (
            f"{vx:+.2f} {vy:+.2f} m/s {yaw_rate:+.2f} rad/s  "
            f"height {height:+.2f} m  roll {roll:+.2f} pitch {pitch:+.2f} rad"
        )

    def _clear(self, fields: Sequence[str]) -> None:
        self.setpoint.update(dict.fromkeys(fields, 0.0))


def describe(keys: Keyboard) -> str:
    """Return a help text with one line per function."""
    lines = []
    for field, step in keys.steps.items():
        more, less, unit = FIELDS[field]
        lines.append((" ".join((*step.higher, "/", *step.lower)), f"{more} / {less}, by {step.size:g} {unit} a press"))
    lines += [(" ".join(keys.halt), "no velocity"), (" ".join(keys.level), "level, nominal height")]
    for request, names in keys.requests.items():
        words = request.replace("_", " ")
        lines.append((" ".join(names), words.upper() if request == Request.EMERGENCY_STOP else words))
    return "\n".join(f"  {left:<24}{right}" for left, right in [*lines, ("Ctrl-C", "quit")])


class TeleopKeyboard(Node):
    """Publishes commands of keys; shows mode, command and responses. Raises ValueError for wrong parameters."""

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
        follow(self, MODE.of(chosen.controller), self._set_mode)

    def drive(self, keys: Callable[[float], list[str]], stop: Stop) -> None:
        """Read keys and publish at 10 Hz until `stop` is set; then publish zero velocity if the robot is driven.

        After a pause of the process the velocity is zero, and of the keys of that time only an emergency stop counts.
        """
        self._display.print(self._help)
        executor = GuardedExecutor(self)
        due = time.monotonic()
        try:
            while not stop.is_set():
                pressed = keys(max(due - time.monotonic(), 0.0))
                if (now := time.monotonic()) - due > PAUSE:
                    self._display.print(f"paused for {now - due:.1f} s: no velocity; only a stop counts of its keys")
                    self._command.release(now)
                    pressed, due = self._command.stops(pressed), now
                for key in pressed:
                    if request := self._command.press(key, time.monotonic()):
                        self._modes.request(request)
                executor.spin_once(timeout_sec=0.0)
                if time.monotonic() >= due:
                    due += PUBLISH_PERIOD
                    self._publisher.publish(self._command.command(time.monotonic()))
                self._display.show(f"{self._mode:<13}  {self._command}")
        finally:
            if self._command.command(time.monotonic()).velocity is not None:
                self._publisher.stop()

    def _set_mode(self, message: String) -> None:
        """Store the mode; when walking ends, reset the velocity, so that the next walk does not start with it."""
        before, self._mode = self._mode, message.data
        stopped = Mode.FAULT.value == self._mode or before == Mode.WALKING.value != self._mode
        if stopped and self._command.release(time.monotonic()):
            self._display.print(f"the velocity is reset to zero: the robot is {self._mode.replace('_', ' ')}")


def main() -> int:
    """Run the teleoperation until Ctrl-C or the end of its terminal; return the exit code."""
    return run_program(NAME, TeleopKeyboard, _run)


def _run(node: TeleopKeyboard, stop: Stop) -> int:
    try:
        with open_keyboard() as keys:
            node.drive(keys, stop)
    except OSError as error:
        return refused(NAME, error)
    return 0
