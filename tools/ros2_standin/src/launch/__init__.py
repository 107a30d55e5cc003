"""The part of ROS 2's `launch` that fcnet's launch files and tests use, for machines where ROS 2 came as wheels.

Names, arguments and behaviour are upstream's; anything that is not here is refused with an error, never ignored. Texts
are plain: a launch argument is read by LaunchConfiguration.perform in an OpaqueFunction.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO, Union

__all__ = ["Action", "LaunchContext", "LaunchDescription"]


class LaunchContext:
    """State of one launch: its arguments, the tasks of its processes, the files to close at its end."""

    def __init__(self) -> None:
        self.launch_configurations: dict[str, str] = {}
        self.stopping = asyncio.Event()
        self.tasks: set[asyncio.Task[SomeActions]] = set()  # a task returns the actions that follow its process
        self.files = contextlib.ExitStack()

    @property
    def is_shutdown(self) -> bool:
        """Whether launching is ending."""
        return self.stopping.is_set()


class Action:
    """Something to do."""

    def visit(self, context: LaunchContext) -> list[Action] | None:
        """Do it and return the actions to visit next."""
        raise NotImplementedError


SomeActions = Union[Action, Iterable[Action], None]


class LaunchDescription:
    """A list of actions, visited in order: what a launch file returns."""

    def __init__(self, initial_entities: Iterable[Action] | None = None) -> None:
        self.entities = list(initial_entities or [])


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
