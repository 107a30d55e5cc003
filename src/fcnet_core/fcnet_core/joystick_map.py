"""What the controls of a joystick mean."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fcnet_core.joy_layout import SignedAxis, check_buttons, parse_axis
from fcnet_core.mode_request import Request
from fcnet_core.strict_entries import StrictEntries, words

Chord = frozenset[str]  # buttons that are all held
VELOCITY = ("vx", "vy", "yaw_rate")
POSE = ("height", "roll", "pitch")
FEWEST_BUTTONS = 2  # of a request, so that it is not made by accident


@dataclass(frozen=True)
class Speed:
    """Fractions of a robot's command ranges."""

    normal: float
    slow: float
    fast: float


@dataclass(frozen=True)
class JoystickMap:
    """Meanings of chords and axes; `pose` holds the chords that lower and raise a field of the pose."""

    deadman: Chord
    emergency_stop: tuple[Chord, ...]
    requests: dict[Request, Chord]
    velocity: dict[str, SignedAxis]
    dead_zone: float
    expo: float
    speed: Speed
    slow: Chord
    fast: Chord
    pose: dict[str, tuple[Chord, Chord]]
    pose_speed: float
    level: Chord

    @property
    def meanings(self) -> list[tuple[str, Chord]]:
        """Every chord with what it means."""
        return [
            ("deadman", self.deadman),
            *(("emergency_stop", chord) for chord in self.emergency_stop),
            *((request.value, chord) for request, chord in self.requests.items()),
            ("slow", self.slow),
            ("fast", self.fast),
            *((f"lower {field}", chords[0]) for field, chords in self.pose.items()),
            *((f"raise {field}", chords[1]) for field, chords in self.pose.items()),
            ("level", self.level),
        ]


def parse_joystick(entries: StrictEntries) -> JoystickMap:
    """Read the entry `joystick`. Raises ValueError with a phrase that says what is wrong."""
    requests, velocity, pose, speed = (entries.section(name) for name in ("requests", "velocity", "pose", "speed"))
    joystick = JoystickMap(
        deadman=_chord(entries, "deadman"),
        emergency_stop=_chords(f"{entries.where}.emergency_stop", entries.take("emergency_stop")),
        requests={
            request: _chord(requests, request.value) for request in Request if request is not Request.EMERGENCY_STOP
        },
        velocity={field: parse_axis(f"{velocity.where}.{field}", velocity.take(field)) for field in VELOCITY},
        dead_zone=entries.number("dead_zone", 0.0, 0.5),
        expo=entries.number("expo", 0.0, 1.0),
        speed=Speed(*(speed.number(name, 0.0, 1.0) for name in ("normal", "slow", "fast"))),
        slow=_chord(entries, "slow"),
        fast=_chord(entries, "fast"),
        pose={field: _pair(f"{pose.where}.{field}", pose.take(field)) for field in POSE},
        pose_speed=entries.number("pose_speed", 0.0, 1.0),
        level=_chord(entries, "level"),
    )
    for section in (requests, velocity, pose, speed, entries):
        section.finish()
    _check(joystick)
    return joystick


def _chord(entries: StrictEntries, name: str) -> Chord:
    return _buttons(f"{entries.where}.{name}", entries.take(name))


def _buttons(where: str, value: Any) -> Chord:
    names = words(where, value)
    check_buttons(where, names)
    return frozenset(names)


def _chords(where: str, value: Any) -> tuple[Chord, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{where} must be a list of lists of buttons, such as [[B]], not {value!r}")
    return tuple(_buttons(where, chord) for chord in value)


def _pair(where: str, value: Any) -> tuple[Chord, Chord]:
    chords = _chords(where, value)
    if len(chords) != 2:
        raise ValueError(f"{where} must be two lists of buttons, the one that lowers and the one that raises")
    return chords[0], chords[1]


def _check(joystick: JoystickMap) -> None:
    for (one, chord), (other, same) in combinations(joystick.meanings, 2):
        if chord == same:
            raise ValueError(f"{_name(chord)} means {one} and {other}; give each a chord of its own")
    for meaning, chord in joystick.meanings:
        stops = [stop for stop in joystick.emergency_stop if stop <= chord]
        if stops and meaning != "emergency_stop":
            raise ValueError(f"{_name(chord)} for {meaning} holds {_name(stops[0])}, which is an emergency stop")
    for request, chord in joystick.requests.items():
        if len(chord) < FEWEST_BUTTONS:
            raise ValueError(
                f"{_name(chord)} alone means {request.value}, which would be asked by accident; "
                f"add a button, such as {_name(joystick.deadman)}"
            )


def _name(chord: Chord) -> str:
    return "+".join(sorted(chord))
