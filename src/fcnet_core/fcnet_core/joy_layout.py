"""Where the controls of a joystick stand in its messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fcnet_core.strict_entries import StrictEntries

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
