"""Sources of commands and emergency-stop buttons: the part of config/remote.yaml that every program needs."""

from collections import Counter
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from fcnet_core.files import CONFIG, read_settings

REMOTE_FILE = CONFIG / "remote.yaml"
Word = Annotated[str, Meta(min_length=1)]
Chord = Annotated[frozenset[Word], Meta(min_length=1)]  # buttons held together


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """A source of commands and its topics."""

    name: Word
    velocity: Word
    pose: Word


Sources = Annotated[tuple[Source, ...], Meta(min_length=1)]


class StopChords(Struct, frozen=True):
    """The part of the entry `joystick` that a bridge uses without ROS: holding a chord is an emergency stop."""

    emergency_stop: Annotated[tuple[Chord, ...], Meta(min_length=1)]


class RemoteMap(Struct, frozen=True):
    """Sources of commands by priority, and the emergency-stop chords of Unitree's remote."""

    sources: Sources
    joystick: StopChords

    def __post_init__(self) -> None:
        check_sources(self.sources)


def load_remote_map(path: str | Path = REMOTE_FILE) -> RemoteMap:
    """Read the file at `path`, by default the suite's. Raises FcnetError."""
    return read_settings(path, RemoteMap, "remote control file")


def check_sources(sources: tuple[Source, ...]) -> None:
    """Raise ValueError if two sources share a name or a topic."""
    repeated([source.name for source in sources], "sources have the name")
    repeated([topic for source in sources for topic in (source.velocity, source.pose)], "sources have the topic")


def repeated(values: list[str], what: str) -> None:
    """Raise ValueError if a value occurs twice; `what` starts the message."""
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise ValueError(f"{what} {twice[0]} twice")
