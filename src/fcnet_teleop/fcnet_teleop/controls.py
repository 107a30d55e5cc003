"""Functions of joystick controls and keyboard keys, read from config/remote.yaml."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from fcnet_core.files import Positive, read_settings
from fcnet_core.names import Request, UnitreeButton
from fcnet_core.remote import REMOTE_FILE, Source, Sources, check_sources, repeated

# Unitree's remote has no L3, R3 (a stick pressed down) and `home`.
Button = Literal[UnitreeButton, "L3", "R3", "home"]
# Sticks, triggers and cross; x is positive to the right, y forward (up), a trigger positive when pulled. A minus
# before it inverts the axis.
Axis = Annotated[str, Meta(pattern="^-?(lx|ly|rx|ry|l2|r2|dx|dy)$")]
Unused = Literal["unused"]
LayoutAxis = Annotated[str, Meta(pattern="^(unused|-?(lx|ly|rx|ry|l2|r2|dx|dy))$")]
Chord = Annotated[frozenset[Button], Meta(min_length=1)]  # buttons that are all held
Fraction = Annotated[float, Meta(ge=0.0, le=1.0)]
Key = Annotated[str, Meta(pattern="^([^A-Z]|space|escape|up|down|left|right)$")]
Keys = Annotated[tuple[Key, ...], Meta(min_length=1)]

VELOCITY = ("vx", "vy", "yaw_rate")
POSE = ("height", "roll", "pitch")
SPEEDS = ("normal", "slow", "fast")
DEFAULT_LAYOUT = "xbox"
PRESSED = 0.5  # deflection of an axis that acts as a button
LARGEST = 1.1  # deflection of a stick whose calibration is inexact; more is no deflection
REQUESTS = [request.value for request in Request]


@dataclass(frozen=True)
class Command:
    """Setpoints by field: velocity [m/s, m/s, rad/s] and pose [m, rad, rad]; None: not to be published."""

    velocity: dict[str, float] | None = None
    pose: dict[str, float] | None = None


@dataclass(frozen=True)
class Controls:
    """The state of a joystick: axes -1..1, and names of pressed buttons."""

    axes: dict[str, float]
    pressed: frozenset[str] = frozenset()

    def value(self, axis: str) -> float:
        """Return the value of an axis; a minus before its name inverts it."""
        return _sign(axis) * self.axes.get(axis.lstrip("-"), 0.0)


class JoyLayout(Struct, frozen=True, forbid_unknown_fields=True):
    """The controls of one type of joystick, in the order of its messages. pressed: axes that act as buttons.
    more_buttons: how many buttons without a name its messages may have after those with one.
    """

    axes: Annotated[tuple[LayoutAxis, ...], Meta(min_length=1)]
    buttons: Annotated[tuple[Button | Unused, ...], Meta(min_length=1)]
    pressed: dict[Button, Axis] = {}
    frame_id: str = ""
    more_buttons: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(min_length=1)] = (0,)

    def __post_init__(self) -> None:
        repeated([axis for axis in _unsigned(self.axes) if axis != "unused"], "axes has")
        repeated([button for button in (*self.buttons, *self.pressed) if button != "unused"], "buttons has")
        if missing := set(_unsigned(self.pressed.values())) - set(_unsigned(self.axes)):
            raise ValueError(f"pressed names {', '.join(sorted(missing))}, which axes does not list")

    def __str__(self) -> str:
        counts = " or ".join(str(len(self.buttons) + more) for more in self.more_buttons)
        return f"{len(self.axes)} axes and {counts} buttons"

    def fits(self, axes: Sequence[float], buttons: Sequence[int]) -> bool:
        """Return whether a message has the layout's numbers of axes and buttons."""
        return len(axes) == len(self.axes) and len(buttons) - len(self.buttons) in self.more_buttons

    def read(self, axes: Sequence[float], buttons: Sequence[int]) -> Controls:
        """Read one message. Invalid axes and buttons count as centred and not pressed."""
        values = {
            axis.lstrip("-"): _sign(axis) * min(max(value, -1.0), 1.0)
            for axis, value in zip(self.axes, axes)  # noqa: B905 - a short message does not fit
            if math.isfinite(value)
        }
        pressed = {name for name, value in zip(self.buttons, buttons) if value and name != "unused"}  # noqa: B905
        pressed |= {name for name, axis in self.pressed.items() if Controls(values).value(axis) > PRESSED}
        return Controls(values, frozenset(pressed))


class Joystick(Struct, frozen=True, forbid_unknown_fields=True):
    """Functions of chords and axes. Raises ValueError for contradictions.

    velocity: axis of each field. speed: SPEEDS as fractions of a robot's command ranges. pose: chords that lower and
    raise each field.
    """

    deadman: Chord
    emergency_stop: Annotated[tuple[Chord, ...], Meta(min_length=1)]
    requests: dict[str, Chord]
    velocity: dict[str, Axis]
    dead_zone: Annotated[float, Meta(ge=0.0, le=0.5)]
    expo: Fraction
    speed: dict[str, Fraction]
    slow: Chord
    fast: Chord
    pose: dict[str, tuple[Chord, Chord]]
    pose_speed: Fraction
    level: Chord

    def __post_init__(self) -> None:
        _check_names("requests", self.requests, [name for name in REQUESTS if name != Request.EMERGENCY_STOP])
        _check_names("velocity", self.velocity, VELOCITY)
        _check_names("speed", self.speed, SPEEDS)
        _check_names("pose", self.pose, POSE)
        for (one, chord), (other, same) in combinations(self.meanings, 2):
            if chord == same:
                raise ValueError(f"{_name(chord)} means {one} and {other}; give each its own chord")
        for meaning, chord in self.meanings:
            stops = [stop for stop in self.emergency_stop if stop <= chord]
            if stops and meaning != Request.EMERGENCY_STOP:
                raise ValueError(f"{_name(chord)} for {meaning} holds {_name(stops[0])}, which is an emergency stop")
        for request, chord in self.requests.items():
            if len(chord) < 2:
                raise ValueError(f"a single button means {request}; add one, so that it is not pressed by accident")

    @property
    def meanings(self) -> list[tuple[str, frozenset[str]]]:
        """Every function with its chord."""
        return [
            ("deadman", self.deadman),
            *((Request.EMERGENCY_STOP.value, chord) for chord in self.emergency_stop),
            *self.requests.items(),
            ("slow", self.slow),
            ("fast", self.fast),
            *((f"lower {field}", lower) for field, (lower, _) in self.pose.items()),
            *((f"raise {field}", higher) for field, (_, higher) in self.pose.items()),
            ("level", self.level),
        ]


class KeyStep(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Keys that lower and raise a setpoint field, and by how much (SI units)."""

    lower: Keys
    higher: Keys
    size: Positive


class Keyboard(Struct, frozen=True, forbid_unknown_fields=True):
    """Functions of keys: a lower-case character, or space, escape, up, down, left, right."""

    steps: dict[str, KeyStep]
    halt: Keys
    level: Keys
    requests: dict[str, Keys]

    def __post_init__(self) -> None:
        _check_names("steps", self.steps, (*VELOCITY, *POSE))
        _check_names("requests", self.requests, REQUESTS)
        for (one, keys), (other, others) in combinations(self.meanings, 2):
            if same := {*keys} & {*others}:
                raise ValueError(f"the key {min(same)!r} means {one} and {other}; give each its own key")

    @property
    def meanings(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every function with its keys."""
        return [
            *((f"lower {field}", step.lower) for field, step in self.steps.items()),
            *((f"raise {field}", step.higher) for field, step in self.steps.items()),
            ("halt", self.halt),
            ("level", self.level),
            *self.requests.items(),
        ]


class RemoteControl(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of config/remote.yaml."""

    sources: Sources
    joystick: Joystick
    layouts: dict[str, JoyLayout]
    keyboard: Keyboard

    def __post_init__(self) -> None:
        check_sources(self.sources)
        used, meanings = _unsigned(self.joystick.velocity.values()), self.joystick.meanings
        # A device without a D-pad changes no pose.
        needed = {*used}.union(*(chord for name, chord in meanings if not name.startswith(("lower ", "raise "))))
        if lacking := {"unitree", DEFAULT_LAYOUT} - self.layouts.keys():
            raise ValueError(f"layouts lacks {min(lacking)}")
        for name, layout in self.layouts.items():
            if missing := sorted(needed.difference(layout.buttons, layout.pressed, _unsigned(layout.axes))):
                raise ValueError(f"layout {name} lacks {', '.join(missing)}, which joystick uses")
        repeated([layout.frame_id for layout in self.layouts.values() if layout.frame_id], "layouts have the frame_id")

    def reason_to_doubt(self, name: str, axes: Sequence[float], buttons: Sequence[int]) -> str:
        """Return why a message is invalid or not of the device of the layout called `name`, with a remedy, or ""."""
        layout = self.layouts[name]
        if odd := [value for value in axes if not abs(value) <= LARGEST]:
            return f"an axis of the joystick is {odd[0]:g}, not within -1 to 1; see `ros2 topic echo /joy`"
        if layout.fits(axes, buttons):
            return ""
        others = [other for other, each in self.layouts.items() if each.fits(axes, buttons) and not each.frame_id]
        remedy = f"start teleop_joy with layout:={' or layout:='.join(others)}" if others else "add one to remote_file"
        if layout.frame_id:
            remedy = f"give its driver another frame_id than {layout.frame_id}, which selects the layout"
        return (
            f"the joystick has {len(axes)} axes and {len(buttons)} buttons, but layout {name} has {layout}: only an "
            f"emergency stop is taken from it; {remedy}, then press every button with check:=true"
        )

    def held(self, name: str, axes: Sequence[float], buttons: Sequence[int]) -> set[str]:
        """Return name and functions of each pressed button and deflected axis of a message of the layout `name`."""
        layout, places = self.layouts[name], dict[str, str]()
        controls, unnamed = layout.read(axes, buttons), ("unused",) * len(buttons)
        for index, (pressed, button) in enumerate(zip(buttons, layout.buttons + unnamed)):  # noqa: B905 - enough names
            if pressed:
                places[f"button {index} is {button}"] = button
        indices = {axis: index for index, axis in enumerate(_unsigned(layout.axes))}
        for axis in ("lx", "ly", "rx", "ry"):
            if abs(value := controls.axes.get(axis, 0.0)) > PRESSED:
                places[f"axis {indices[axis]} is {axis} {value:+.0f}"] = axis
        for button, axis in layout.pressed.items():
            if controls.value(axis) > PRESSED:
                places[f"axis {indices[axis.lstrip('-')]} is {button}"] = button
        return {f"{place}: {self._functions(control)}" for place, control in places.items()}

    def _functions(self, control: str) -> str:
        chords = [(meaning, sorted(chord - {control})) for meaning, chord in self.joystick.meanings if control in chord]
        words = [f"{meaning} (with {'+'.join(others)})" if others else meaning for meaning, others in chords]
        words += [field for field, axis in self.joystick.velocity.items() if axis.lstrip("-") == control]
        return ", ".join(words).replace("_", " ") or "no function"

    def source(self, name: str) -> Source:
        """Return the source of that name; raises ValueError if it does not exist."""
        if found := [source for source in self.sources if source.name == name]:
            return found[0]
        raise ValueError(f"the remote control file lists no source {name}; add it to `sources`")


def load_remote_control(path: str | Path = REMOTE_FILE) -> RemoteControl:
    """Read the file at `path`, by default the installed one. Raises FcnetError."""
    return read_settings(path, RemoteControl, "remote control file")


def _check_names(entry: str, given: Collection[str], expected: Sequence[str]) -> None:
    if odd := sorted(set(given) ^ set(expected)):
        raise ValueError(f"{entry} must list exactly {', '.join(expected)}; see {odd[0]}")


def _unsigned(axes: Iterable[str]) -> list[str]:
    return [axis.lstrip("-") for axis in axes]


def _sign(axis: str) -> float:
    return -1.0 if axis.startswith("-") else 1.0


def _name(chord: frozenset[str]) -> str:
    return "+".join(sorted(chord))
