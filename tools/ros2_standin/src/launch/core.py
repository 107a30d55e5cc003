"""Context, events, substitutions and entities of a launch, in one module because they refer to each other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TextIO, Union


def report(level: str, source: str, message: str) -> None:
    """Print one message of launching itself, as `[INFO] [source]: message`; errors go to the error stream."""
    show(f"[{level}] [{source}]: {message}", sys.stderr if level == "ERROR" else sys.stdout)


def show(lines: str, stream: TextIO | None = None) -> None:
    """Print lines to stdout or another stream; drop them if its reader has exited, so that the launch can still end its
    processes.
    """
    stream = stream or sys.stdout
    try:
        print(lines, file=stream, flush=True)
    except OSError:
        with contextlib.suppress(OSError), Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())  # the buffer is written again at the end


class Event:
    """Something that happened."""


class LaunchContext:
    """Configurations, environment, handlers of events and running tasks of one launch.

    handlers: functions of an event that return the entities to visit because of it, the newest first.
    """

    def __init__(self) -> None:
        self.launch_configurations: dict[str, str] = {}
        self.environment: dict[str, str] = dict(os.environ)
        self.is_shutdown = False
        self.events: deque[Event] = deque()
        self.handlers: list[Callable[[Event], list[LaunchDescriptionEntity]]] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.changed = asyncio.Event()
        self._files: tempfile.TemporaryDirectory[str] | None = None

    def emit_event_sync(self, event: Event) -> None:
        """Queue an event for the handlers; in the thread of the event loop."""
        self.events.append(event)
        self.changed.set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the event loop; launching ends only after it."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(lambda _: self.changed.set())

    def write_temporary_file(self, text: str) -> Path:
        """Write a file that is removed when launching ends."""
        if self._files is None:
            self._files = tempfile.TemporaryDirectory(prefix="launch_params_")
        path = Path(self._files.name) / f"{len(list(Path(self._files.name).iterdir()))}.yaml"
        path.write_text(text)
        return path

    def close(self) -> None:
        """Remove the temporary files."""
        if self._files is not None:
            self._files.cleanup()


class Substitution:
    """A text that is known only while launching."""

    def perform(self, context: LaunchContext) -> str:
        """Return the text."""
        raise NotImplementedError


SomeSubstitutions = Union[str, Substitution, Iterable[str | Substitution]]


def parts_of(value: SomeSubstitutions) -> list[str | Substitution]:
    """Return the texts and substitutions whose joined texts `value` means; TypeError for anything else."""
    parts = [value] if isinstance(value, (str, Substitution)) else list(value)
    for part in parts:
        if not isinstance(part, (str, Substitution)):
            raise TypeError(f"a text or a substitution was expected, not {part!r} of type {type(part).__name__}")
    return parts


def perform(context: LaunchContext, value: SomeSubstitutions) -> str:
    """Return the joined texts of `value`."""
    return "".join(part if isinstance(part, str) else part.perform(context) for part in parts_of(value))


class LaunchDescriptionEntity:
    """Anything that a launch description may hold."""

    def visit(self, context: LaunchContext) -> list[LaunchDescriptionEntity] | None:
        """Do this entity's work and return the entities to visit next."""
        raise NotImplementedError

    def describe_sub_entities(self) -> list[LaunchDescriptionEntity]:
        """Return the entities known before launching."""
        return []


class Action(LaunchDescriptionEntity):
    """Something to do."""

    def visit(self, context: LaunchContext) -> list[LaunchDescriptionEntity] | None:
        """Execute."""
        return self.execute(context)

    def execute(self, context: LaunchContext) -> list[LaunchDescriptionEntity] | None:
        """Do the work and return the entities to visit next."""
        raise NotImplementedError


class LaunchDescription(LaunchDescriptionEntity):
    """A list of entities, visited in order: what a launch file returns."""

    def __init__(self, initial_entities: Iterable[LaunchDescriptionEntity] | None = None) -> None:
        self.entities = list(initial_entities or [])

    def visit(self, context: LaunchContext) -> list[LaunchDescriptionEntity]:
        """Return the entities."""
        return self.entities

    def describe_sub_entities(self) -> list[LaunchDescriptionEntity]:
        """Return the entities."""
        return self.entities


SomeEntities = Union[LaunchDescriptionEntity, Iterable[LaunchDescriptionEntity], None]
Reaction = Union[SomeEntities, Callable[[Any, LaunchContext], SomeEntities]]
