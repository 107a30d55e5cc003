"""What joysticks command: their messages become setpoints and requests, with a deadman button."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from fcnet_core.robot import CommandRange
from fcnet_teleop.remote import POSE, VELOCITY, Command, Controls, JoyLayout, Joystick, RemoteControl, Request

MAX_STEP = 0.1  # [s] between two messages, for which a held button changes the pose


@dataclass(frozen=True)
class JoyCommand(Command):
    """What one message commands. driving: the deadman button is held. problem: why the message cannot be right."""

    requests: tuple[Request, ...] = ()
    driving: bool = False
    problem: str = ""


class JoyReader:
    """Reads one joystick's messages; keeps what was held, so that a press counts once and a release stops once.

    silence: seconds without a message. is_released: it was released after the last message.
    """

    def __init__(self, joystick: Joystick, layout: JoyLayout, ranges: dict[str, CommandRange]) -> None:
        self.silence, self.is_released = 0.0, False
        self._joystick = joystick
        self._layout = layout
        self._ranges = ranges
        self._pose = dict.fromkeys(POSE, 0.0)
        self._time = -math.inf
        self._driving = False
        self._stops: frozenset[frozenset[str]] = frozenset()
        self._held: frozenset[str] | None = None  # meanings; None: not known, so that nothing counts as just pressed

    def take(self, axes: Sequence[float], buttons: Sequence[int], now: float) -> JoyCommand:
        """Read the message received at time `now` [s].

        A message that cannot be right counts as one with everything released, except for an emergency stop in it.
        """
        controls = self._layout.read(axes, buttons)
        stops = frozenset(chord for chord in self._joystick.emergency_stop if chord <= controls.pressed)
        pressed_stop = (Request.EMERGENCY_STOP,) if stops - self._stops else ()
        if controls.problem or stops:
            command = replace(self.release(), requests=pressed_stop, problem=controls.problem)
        else:
            command = self._command(controls, now)
        self._stops, self._time = stops, now
        self.silence, self.is_released = 0.0, False
        return command

    def release(self) -> JoyCommand:
        """Release everything, as when the joystick falls silent; a driven robot gets a velocity of zero once."""
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
        """Zero for a robot that has been driven so far."""
        return dict.fromkeys(VELOCITY, 0.0) if self._driving else None

    def _velocity(self, controls: Controls, held: Collection[str]) -> dict[str, float]:
        speed = self._joystick.speed
        fraction = speed.slow if "slow" in held else speed.fast if "fast" in held else speed.normal
        velocity = {}
        for field, axis in self._joystick.velocity.items():
            value = fraction * self._shape(controls.value(axis))
            limits = self._ranges[field]
            velocity[field] = value * (limits.highest if value > 0 else -limits.lowest)
        return velocity

    def _shape(self, value: float) -> float:
        """Leave a dead zone out and make the middle finer; -1..1 stays -1..1."""
        beyond = max(abs(value) - self._joystick.dead_zone, 0.0) / (1.0 - self._joystick.dead_zone)
        expo = self._joystick.expo
        return math.copysign((1.0 - expo) * beyond + expo * beyond**3, value)

    def _change_pose(self, held: set[str], new: set[str], duration: float) -> dict[str, float] | None:
        """The pose after the pose buttons were held for `duration` [s]; None if none is held."""
        if "level" in new:
            self._pose = dict.fromkeys(POSE, 0.0)
            return dict(self._pose)
        directions = {field: (f"raise {field}" in held) - (f"lower {field}" in held) for field in POSE}
        if not any(directions.values()):
            return None
        for field, direction in directions.items():
            limits = self._ranges[field]
            moved = self._pose[field] + direction * self._joystick.pose_speed * limits.rate * duration
            self._pose[field] = min(max(moved, limits.lowest), limits.highest)
        return dict(self._pose)


class Joysticks:
    """Distinguishes joysticks by the frame_id of their messages. Whose deadman button was held first drives alone.

    `layout` is for joysticks whose frame_id no layout has. A joystick without a message in `timeout` [s] counts as
    released. Raises ValueError for an unknown layout.
    """

    def __init__(self, remote: RemoteControl, layout: str, ranges: dict[str, CommandRange], timeout: float) -> None:
        self._remote = remote
        self._layout = remote.layout("", layout).name
        self._ranges = ranges
        self._timeout = timeout
        self._readers: dict[str, JoyReader] = {}
        self._driver: str | None = None

    def take(self, frame_id: str, axes: Sequence[float], buttons: Sequence[int], now: float) -> JoyCommand:
        """Read a message received at time `now` [s]; only the driver's command has a velocity or a pose."""
        if frame_id not in self._readers:
            layout = self._remote.layout(frame_id, self._layout)
            self._readers[frame_id] = JoyReader(self._remote.joystick, layout, self._ranges)
        return self._of_driver(frame_id, self._readers[frame_id].take(axes, buttons, now))

    def release_silent(self, elapsed: float) -> list[tuple[str, JoyCommand]]:
        """After `elapsed` [s] more, release joysticks that have reached the timeout: frame_ids and what follows."""
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
