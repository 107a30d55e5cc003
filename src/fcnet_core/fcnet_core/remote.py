"""Who may command a robot, and which buttons stop it: what every program needs of config/remote.yaml."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from fcnet_core.files import CONFIG, read_settings

REMOTE_FILE = CONFIG / "remote.yaml"
Word = Annotated[str, Meta(min_length=1)]
Chord = Annotated[frozenset[Word], Meta(min_length=1)]  # buttons that are all held


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """A source of commands, and the topics on which it publishes them."""

    name: Word
    velocity: Word
    pose: Word


Sources = Annotated[tuple[Source, ...], Meta(min_length=1)]


class StopChords(Struct, frozen=True):
    """The part of the entry `joystick` that a bridge acts on without ROS: each chord, held, is an emergency stop."""

    emergency_stop: Annotated[tuple[Chord, ...], Meta(min_length=1)]


class RemoteMap(Struct, frozen=True):
    """The sources of commands, the most important first, and the chords of Unitree's remote that stop the robot."""

    sources: Sources
    joystick: StopChords

    def __post_init__(self) -> None:
        check_sources(self.sources)


def load_remote_map(path: str | Path = REMOTE_FILE) -> RemoteMap:
    """Read the file at `path`, by default the suite's own. Raises FcnetError with one sentence."""
    return read_settings(path, RemoteMap, "remote control file")


def check_sources(sources: tuple[Source, ...]) -> None:
    """Raise ValueError where two sources share a name or a topic."""
    repeated([source.name for source in sources], "sources have the name")
    repeated([topic for source in sources for topic in (source.velocity, source.pose)], "sources have the topic")


def repeated(values: list[str], what: str) -> None:
    """Raise ValueError, beginning with `what`, for a value that occurs more than once."""
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise ValueError(f"{what} {twice[0]} twice")
