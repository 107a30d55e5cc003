"""The remote control's settings, read from config/remote.yaml and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from fcnet_core.files import StrictEntries, words

# What a person can ask of a robot's controller.

class Request(str, Enum):
    """A change of mode; the values are the names of the controller's services."""

    STAND_UP = "stand_up"
    WALK = "walk"
    LIE_DOWN = "lie_down"
    RESET = "reset"
    EMERGENCY_STOP = "emergency_stop"


# Where the controls of a joystick stand in its messages.

# Order of Unitree's wireless remote; L3 and R3 (a stick pressed down) and `home` exist on other devices only.
UNITREE_BUTTONS = (
    *("R1", "L1", "start", "select", "R2", "L2", "F1", "F2"),
    *("A", "B", "X", "Y", "up", "right", "down", "left"),
)
BUTTONS = (*UNITREE_BUTTONS, "L3", "R3", "home")
# Sticks, triggers and cross; x is positive to the right, y forward (up), a trigger positive when pulled.
AXES = ("lx", "ly", "rx", "ry", "l2", "r2", "dx", "dy")
UNUSED = "unused"
PRESSED = 0.5  # of an axis that stands for a button


@dataclass(frozen=True)
class SignedAxis:
    """An axis by its name, turned round where `sign` is -1."""

    name: str
    sign: float


@dataclass(frozen=True)
class Controls:
    """What a person does to a joystick: axes -1..1, names of pressed buttons, and what was wrong with the message."""

    axes: dict[str, float]
    pressed: frozenset[str]
    problem: str = ""

    def value(self, axis: SignedAxis) -> float:
        """The value of an axis with its sign."""
        return axis.sign * self.axes.get(axis.name, 0.0)


@dataclass(frozen=True)
class JoyLayout:
    """The controls of one kind of joystick, in the order of its messages."""

    name: str
    frame_id: str
    axes: tuple[SignedAxis, ...]
    buttons: tuple[str, ...]
    pressed: dict[str, SignedAxis]

    @property
    def controls(self) -> frozenset[str]:
        """Names of all buttons and axes it has."""
        return frozenset((*self.buttons, *self.pressed, *(axis.name for axis in self.axes))) - {UNUSED}

    def read(self, axes: Sequence[float], buttons: Sequence[int]) -> Controls:
        """Read one message; what cannot be read counts as centred and not pressed, and is told in `problem`."""
        values = {
            axis.name: axis.sign * min(max(value, -1.0), 1.0)
            for axis, value in zip(self.axes, axes)  # noqa: B905 - a short message is told below
            if math.isfinite(value)
        }
        held = Controls(values, frozenset())
        return Controls(
            values,
            frozenset(name for name, value in zip(self.buttons, buttons) if value and name != UNUSED)  # noqa: B905
            | frozenset(name for name, axis in self.pressed.items() if held.value(axis) > PRESSED),
            self._problem(axes, buttons),
        )

    def _problem(self, axes: Sequence[float], buttons: Sequence[int]) -> str:
        if len(axes) < len(self.axes) or len(buttons) < len(self.buttons):
            return (
                f"the joystick has {len(axes)} axes and {len(buttons)} buttons, layout {self.name} needs "
                f"{len(self.axes)} and {len(self.buttons)}; choose another layout or write one into config/remote.yaml"
            )
        if not all(map(math.isfinite, axes)):
            return "the joystick says something that is not a finite number"
        return ""


def parse_axis(where: str, text: object) -> SignedAxis:
    """Read `ly` or `-ly`. Raises ValueError for what is no axis."""
    name = str(text).removeprefix("-")
    if name not in AXES:
        raise ValueError(f"{where} is {text!r}, which is no axis; axes are {', '.join(AXES)}")
    return SignedAxis(name, -1.0 if str(text).startswith("-") else 1.0)


def check_buttons(where: str, names: Sequence[str]) -> None:
    """Raise ValueError for a name that is no button."""
    if unknown := [name for name in names if name not in BUTTONS]:
        raise ValueError(f"{where} names {', '.join(unknown)}, which is no button; buttons are {', '.join(BUTTONS)}")


def parse_layout(name: str, entries: StrictEntries) -> JoyLayout:
    """Read one entry of `layouts`. Raises ValueError with a phrase that says what is wrong."""
    buttons = entries.words("buttons")
    pressed = StrictEntries(f"{entries.where}.pressed", entries.take_if_there("pressed", {}))
    on_axes = {
        button: parse_axis(f"{pressed.where}.{button}", axis)
        for button in BUTTONS
        if (axis := pressed.take_if_there(button, None)) is not None
    }
    pressed.finish()
    layout = JoyLayout(
        name=name,
        frame_id=str(entries.take_if_there("frame_id", "")),
        axes=tuple(
            SignedAxis(UNUSED, 1.0) if axis == UNUSED else parse_axis(f"{entries.where}.axes", axis)
            for axis in entries.words("axes")
        ),
        buttons=buttons,
        pressed=on_axes,
    )
    entries.finish()
    check_buttons(f"{entries.where}.buttons", [button for button in buttons if button != UNUSED])
    _check_once(entries.where, [*buttons, *on_axes], [axis.name for axis in layout.axes])
    if missing := {axis.name for axis in on_axes.values()} - layout.controls:
        raise ValueError(f"{pressed.where} names {', '.join(sorted(missing))}, which its axes lack")
    return layout


def _check_once(where: str, *lists: list[str]) -> None:
    for names in lists:
        if twice := sorted({name for name in names if name != UNUSED and names.count(name) > 1}):
            raise ValueError(f"{where} has {', '.join(twice)} twice")


# What the controls of a joystick mean.

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


# What the keys of a keyboard mean.

NAMED_KEYS = ("space", "escape", "up", "down", "left", "right")


@dataclass(frozen=True)
class KeyStep:
    """Keys that lower and raise a setpoint field, and by how much (SI units)."""

    lower: tuple[str, ...]
    higher: tuple[str, ...]
    size: float


@dataclass(frozen=True)
class KeyboardMap:
    """Meanings of keys: a lower-case character, or a name from NAMED_KEYS."""

    steps: dict[str, KeyStep]
    halt: tuple[str, ...]
    level: tuple[str, ...]
    requests: dict[Request, tuple[str, ...]]

    @property
    def meanings(self) -> list[tuple[str, str]]:
        """Every key with what it means."""
        lists = [
            *((f"lower {field}", step.lower) for field, step in self.steps.items()),
            *((f"raise {field}", step.higher) for field, step in self.steps.items()),
            ("halt", self.halt),
            ("level", self.level),
            *((request.value, keys) for request, keys in self.requests.items()),
        ]
        return [(key, meaning) for meaning, keys in lists for key in keys]


def parse_keyboard(entries: StrictEntries) -> KeyboardMap:
    """Read the entry `keyboard`. Raises ValueError with a phrase that says what is wrong."""
    steps, requests = entries.section("steps"), entries.section("requests")
    keyboard = KeyboardMap(
        steps={field: _step(f"{steps.where}.{field}", steps.take(field)) for field in (*VELOCITY, *POSE)},
        halt=entries.words("halt"),
        level=entries.words("level"),
        requests={request: requests.words(request.value) for request in Request},
    )
    for section in (steps, requests, entries):
        section.finish()
    _check_of_keyboard_map(entries.where, keyboard)
    return keyboard


def _step(where: str, value: object) -> KeyStep:
    if not isinstance(value, list) or len(value) != 3 or not isinstance(value[2], (int, float)) or not value[2] > 0:
        raise ValueError(f"{where} must be keys that lower, keys that raise and a positive step, not {value!r}")
    return KeyStep(words(where, value[0]), words(where, value[1]), float(value[2]))


def _check_of_keyboard_map(where: str, keyboard: KeyboardMap) -> None:
    found: dict[str, str] = {}
    for key, meaning in keyboard.meanings:
        if key not in NAMED_KEYS and (len(key) != 1 or key != key.lower()):
            raise ValueError(
                f"{where} names the key {key!r} for {meaning}; a key is a lower-case character or one of "
                f"{', '.join(NAMED_KEYS)}"
            )
        if key in found:
            raise ValueError(f"{where} lets the key {key!r} {found[key]} and {meaning}; give each a key of its own")
        found[key] = meaning


# The remote control's settings, read from config/remote.yaml and nowhere else.

REMOTE_FILE = Path(__file__).parent / "config" / "remote.yaml"
USUAL_LAYOUT = "xbox"


class RemoteFileError(ValueError):
    """The file of the remote control is missing or says something that cannot be."""


@dataclass(frozen=True)
class Source:
    """One who may move a robot, and the topics on which it does."""

    name: str
    velocity: str
    pose: str


@dataclass(frozen=True)
class RemoteMap:
    """Who may move a robot (most important first), and what joysticks and keys mean."""

    sources: tuple[Source, ...]
    joystick: JoystickMap
    layouts: dict[str, JoyLayout]
    keyboard: KeyboardMap

    @property
    def emergency_stop(self) -> tuple[Chord, ...]:
        """Chords of Unitree's remote, each of which is an emergency stop when all of its buttons are held."""
        return self.joystick.emergency_stop

    def source(self, name: str) -> Source:
        """The source of that name. Raises RemoteFileError where there is none."""
        for source in self.sources:
            if source.name == name:
                return source
        raise RemoteFileError(f"the remote control file lists no source {name}; add it to `sources`")

    def layout(self, name: str) -> JoyLayout:
        """The layout of that name. Raises RemoteFileError where there is none."""
        if name not in self.layouts:
            raise RemoteFileError(f"there is no joystick layout {name!r}; known are {', '.join(self.layouts)}")
        return self.layouts[name]

    def layout_of(self, frame_id: str, otherwise: str = USUAL_LAYOUT) -> JoyLayout:
        """The layout of the device whose messages have that frame_id; `otherwise` if none claims it."""
        claimed = (layout for layout in self.layouts.values() if layout.frame_id and layout.frame_id == frame_id)
        return next(claimed, self.layout(otherwise))


def load_remote_map(path: str | Path = REMOTE_FILE) -> RemoteMap:
    """Read the file at `path`, by default the suite's own.

    Raises RemoteFileError with one sentence that says what is wrong and where.
    """
    try:
        return _parse(StrictEntries("the file", _read(Path(path))))
    except OSError as error:
        raise RemoteFileError(
            f"remote control file {path} cannot be read: {error.strerror}; give the path of one"
        ) from error
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise RemoteFileError(
            f"remote control file {path} cannot be used: {reason}; compare it with the suite's config/remote.yaml"
        ) from error


class _StrictLoader(yaml.CSafeLoader):
    """Refuses an entry that is given twice, of which YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key) for key, _ in node.value]
        if twice := [str(name) for name in names if names.count(name) > 1]:
            raise ValueError(f"entry {twice[0]} is given twice, at line {node.start_mark.line + 1} and below")
        return super().construct_mapping(node, deep)


def _read(path: Path) -> Any:
    return yaml.load(path.read_text(), _StrictLoader)


def _parse(entries: StrictEntries) -> RemoteMap:
    sources, layouts = entries.take("sources"), entries.take("layouts")
    joystick = parse_joystick(StrictEntries("joystick", entries.take("joystick")))
    remote = RemoteMap(
        sources=_sources(sources),
        joystick=joystick,
        layouts=_layouts(layouts, joystick),
        keyboard=parse_keyboard(StrictEntries("keyboard", entries.take("keyboard"))),
    )
    entries.finish()
    return remote


def _sources(value: Any) -> tuple[Source, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"sources must be a list of at least one source, not {value!r}")
    sources = []
    for number, facts in enumerate(value, start=1):
        entries = StrictEntries(f"source {number}", facts)
        sources.append(Source(*(entries.text(field) for field in ("name", "velocity", "pose"))))
        entries.finish()
    _check_once_of_remote_map("name", [source.name for source in sources])
    _check_once_of_remote_map("topic", [topic for source in sources for topic in (source.velocity, source.pose)])
    return tuple(sources)


def _check_once_of_remote_map(what: str, values: Sequence[str]) -> None:
    if twice := [value for value in values if values.count(value) > 1]:
        raise ValueError(f"sources have the {what} {twice[0]} twice")


def _layouts(value: Any, joystick: JoystickMap) -> dict[str, JoyLayout]:
    entries = StrictEntries("layouts", value)
    layouts = {name: parse_layout(name, entries.section(name)) for name in dict(value)}
    needed = frozenset(axis.name for axis in joystick.velocity.values()).union(*(c for _, c in joystick.meanings))
    for name in ("unitree", USUAL_LAYOUT):
        if name not in layouts:
            raise ValueError(f"layouts lacks {name}")
    for layout in layouts.values():
        if missing := sorted(needed - layout.controls):
            raise ValueError(f"layout {layout.name} lacks {', '.join(missing)}, which joystick gives a meaning")
    frames = [layout.frame_id for layout in layouts.values() if layout.frame_id]
    if len(set(frames)) < len(frames):
        raise ValueError("two layouts have the same frame_id")
    return layouts
