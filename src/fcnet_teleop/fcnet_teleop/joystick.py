"""What the messages of joysticks ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fcnet_core.robot import CommandRange
from fcnet_teleop.remote import POSE, VELOCITY, Controls, JoyLayout, Joystick, RemoteControl, Request

LONGEST_STEP = 0.1  # [s] between two messages, for which a held button changes the pose


@dataclass(frozen=True)
class JoyOrder:
    """What one message asks for: setpoints by field, None where it says nothing; requests; what is wrong with it.

    `driving` tells that the deadman button is held.
    """

    velocity: dict[str, float] | None = None
    pose: dict[str, float] | None = None
    requests: tuple[Request, ...] = ()
    driving: bool = False
    problem: str = ""


class JoyCommand:
    """Remembers what was held before, so that a press counts once and a release stops the robot once."""

    def __init__(self, joystick: Joystick, layout: JoyLayout, ranges: dict[str, CommandRange]) -> None:
        self._joystick = joystick
        self._layout = layout
        self._ranges = ranges
        self._pose = dict.fromkeys(POSE, 0.0)
        self._time = -math.inf
        self._driving = False
        self._stops: frozenset[frozenset[str]] = frozenset()
        self._held: frozenset[str] | None = None  # meanings; None: not known, so that nothing counts as just pressed

    def take(self, axes: Sequence[float], buttons: Sequence[int], now: float) -> JoyOrder:
        """Read the message received at time `now` [s].

        A message that cannot be right counts as one with everything released, except for an emergency stop in it.
        """
        controls = self._layout.read(axes, buttons)
        stops = frozenset(chord for chord in self._joystick.emergency_stop if chord <= controls.pressed)
        pressed_stop = (Request.EMERGENCY_STOP,) if stops - self._stops else ()
        if controls.problem or stops:
            order = replace(self.release(), requests=pressed_stop, problem=controls.problem)
        else:
            order = self._obey(controls, now)
        self._stops, self._time = stops, now
        return order

    def release(self) -> JoyOrder:
        """Let everything go, as when the joystick has fallen silent; a driven robot gets a velocity of zero once."""
        order = JoyOrder(velocity=self._last_velocity())
        self._driving, self._held, self._stops = False, None, frozenset()
        return order

    def _obey(self, controls: Controls, now: float) -> JoyOrder:
        held = {name: chord for name, chord in self._joystick.meanings if chord <= controls.pressed}
        largest = {name for name, chord in held.items() if not any(chord < other for other in held.values())}
        new = largest - self._held if self._held is not None else set()
        requests = tuple(Request(name) for name, _ in self._joystick.requests.items() if name in new)
        driving = self._joystick.deadman <= controls.pressed
        pose = self._change_pose(largest, new, min(now - self._time, LONGEST_STEP)) if driving else None
        velocity = self._velocity(controls) if driving else self._last_velocity()
        if Request.RESET in requests:
            self._pose = dict.fromkeys(POSE, 0.0)  # as the controller does
        self._driving, self._held = driving, frozenset(held)
        return JoyOrder(velocity, pose, requests, driving)

    def _last_velocity(self) -> dict[str, float] | None:
        """Zero for a robot that has been driven so far."""
        return dict.fromkeys(VELOCITY, 0.0) if self._driving else None

    def _velocity(self, controls: Controls) -> dict[str, float]:
        fraction = self._fraction(controls.pressed)
        velocity = {}
        for field, axis in self._joystick.velocity.items():
            wanted = fraction * self._shape(controls.value(axis))
            limits = self._ranges[field]
            velocity[field] = wanted * (limits.highest if wanted > 0 else -limits.lowest)
        return velocity

    def _fraction(self, pressed: frozenset[str]) -> float:
        speed = self._joystick.speed
        if self._joystick.slow <= pressed:
            return speed.slow
        return speed.fast if self._joystick.fast <= pressed else speed.normal

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


@dataclass
class _Joystick:
    command: JoyCommand
    silence: float = 0.0  # [s]
    is_let_go: bool = False


class Joysticks:
    """Tells joysticks apart by the frame_id of their messages. Who holds its deadman button first drives alone.

    `layout` is for joysticks whose frame_id no layout has. A joystick without a message in `timeout` [s] counts as
    released. Raises ValueError for an unknown layout.
    """

    def __init__(self, remote: RemoteControl, layout: str, ranges: dict[str, CommandRange], timeout: float) -> None:
        self._remote = remote
        self._layout = remote.layout(layout).name
        self._ranges = ranges
        self._timeout = timeout
        self._joysticks: dict[str, _Joystick] = {}
        self._driver: str | None = None

    def take(self, frame_id: str, axes: Sequence[float], buttons: Sequence[int], now: float) -> JoyOrder:
        """Read a message received at time `now` [s]; only a driver's order has a velocity or a pose."""
        joystick = self._joysticks.get(frame_id)
        if joystick is None:
            layout = self._remote.layout_of(frame_id, self._layout)
            joystick = _Joystick(JoyCommand(self._remote.joystick, layout, self._ranges))
            self._joysticks[frame_id] = joystick
        joystick.silence, joystick.is_let_go = 0.0, False
        return self._of_driver(frame_id, joystick.command.take(axes, buttons, now))

    def let_go_of_silent(self, listened: float) -> list[tuple[str, JoyOrder]]:
        """After `listened` [s] more: frame_ids of joysticks that have now been silent too long, and what follows."""
        orders = []
        for frame_id, joystick in self._joysticks.items():
            joystick.silence += listened
            if joystick.silence > self._timeout and not joystick.is_let_go:
                joystick.is_let_go = True
                orders.append((frame_id, self._of_driver(frame_id, joystick.command.release())))
        return orders

    def _of_driver(self, frame_id: str, order: JoyOrder) -> JoyOrder:
        if self._driver not in (None, frame_id):
            return replace(order, velocity=None, pose=None)
        self._driver = frame_id if order.driving else None
        return order
