"""The remote control's settings, read from config/remote.yaml and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fcnet_core.joy_layout import JoyLayout, parse_layout
from fcnet_core.joystick_map import Chord, JoystickMap, parse_joystick
from fcnet_core.keyboard_map import KeyboardMap, parse_keyboard
from fcnet_core.strict_entries import StrictEntries

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
    _check_once("name", [source.name for source in sources])
    _check_once("topic", [topic for source in sources for topic in (source.velocity, source.pose)])
    return tuple(sources)


def _check_once(what: str, values: Sequence[str]) -> None:
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
