"""What presses of keys add up to: setpoints and requests."""

from __future__ import annotations

import numpy as np

from fcnet_core.robot import CommandRange
from fcnet_teleop.remote import POSE, VELOCITY, Keyboard, Request

LINGER = 1.0  # [s] for which a velocity of zero is still published
SEQUENCES = {"space": " ", "escape": "\x1b", "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D"}
FIELDS = {  # name and unit
    "vx": ("forward", "m/s"),
    "vy": ("left", "m/s"),
    "yaw_rate": ("turn left", "rad/s"),
    "height": ("body higher", "m"),
    "roll": ("lean right", "rad"),
    "pitch": ("nose down", "rad"),
}


class KeyboardCommand:
    """The command built up by key presses, within a robot's command ranges.

    It is active from a press that changes it until its velocity has been zero for a while: only then is it published,
    so that a keyboard nobody touches leaves the robot to others.
    """

    def __init__(self, keys: Keyboard, ranges: dict[str, CommandRange]) -> None:
        self._ranges = ranges
        self._steps = {
            SEQUENCES.get(key, key): (field, size)
            for field, step in keys.steps.items()
            for names, size in ((step.lower, -step.size), (step.higher, step.size))
            for key in names
        }
        self._halt = [SEQUENCES.get(key, key) for key in keys.halt]
        self._level = [SEQUENCES.get(key, key) for key in keys.level]
        self._requests = {SEQUENCES.get(key, key): request for request, names in keys.requests.items() for key in names}
        self._pressed = self._posed = float("-inf")
        self.setpoint = dict.fromkeys((*VELOCITY, *POSE), 0.0)

    def press(self, key: str, now: float) -> Request | None:
        """Take one key (a character, or an arrow's escape sequence) at time `now` [s]; return its request."""
        key = key.lower() if len(key) == 1 else key
        request = self._requests.get(key)
        if key in self._steps:
            field, step = self._steps[key]
            self._add(field, step, now)
        elif key in self._halt:
            self.halt(now)
        elif key in self._level:
            self._clear(POSE)
            self._pressed = self._posed = now
        elif request is not None and request is not Request.WALK:
            self._clear(VELOCITY)
            if request is Request.RESET:
                self._clear(POSE)  # as the controller does
        return request

    def halt(self, now: float) -> None:
        """Set the velocity to zero."""
        self._clear(VELOCITY)
        self._pressed = now

    def has_velocity(self, now: float) -> bool:
        """Whether a velocity is to be published at time `now` [s]."""
        if any(self.setpoint[field] for field in VELOCITY):
            self._pressed = now
        return now - self._pressed <= LINGER

    def has_pose(self, now: float) -> bool:
        """Whether a pose is to be published at time `now` [s]."""
        return now - self._posed <= LINGER

    def __str__(self) -> str:
        vx, vy, yaw_rate, height, roll, pitch = self.setpoint.values()
        return (
            f"{vx:+.2f} {vy:+.2f} m/s {yaw_rate:+.2f} rad/s  "
            f"height {height:+.2f} m  roll {roll:+.2f} pitch {pitch:+.2f} rad"
        )

    def _clear(self, fields: tuple[str, ...]) -> None:
        self.setpoint.update(dict.fromkeys(fields, 0.0))

    def _add(self, field: str, step: float, now: float) -> None:
        limits = self._ranges[field]
        moved = round(self.setpoint[field] + step, 6)
        self.setpoint[field] = float(np.clip(moved, limits.lowest, limits.highest))
        self._pressed = now
        if field in POSE:
            self._posed = now


def describe(keys: Keyboard) -> str:
    """Return what every key does, a line each."""
    lines = []
    for field, step in keys.steps.items():
        name, unit = FIELDS[field]
        lines.append((" ".join((*step.higher, "/", *step.lower)), f"{name} / back by {step.size:g} {unit}"))
    lines += [(" ".join(keys.halt), "no velocity"), (" ".join(keys.level), "level, nominal height")]
    for request, names in keys.requests.items():
        words = request.value.replace("_", " ")
        lines.append((" ".join(names), words.upper() if request is Request.EMERGENCY_STOP else words))
    return "\n".join(f"  {left:<24}{right}" for left, right in [*lines, ("Ctrl-C", "quit")])
