"""The part of ROS 2's `launch` that fcnet's launch files and tests use, for machines where ROS 2 came as wheels.

Names, arguments and behaviour are upstream's; anything that is not here is refused with an error, never ignored. Texts
are plain: a launch argument is read by LaunchConfiguration.perform in an OpaqueFunction.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO, Union

__all__ = ["Action", "LaunchContext", "LaunchDescription"]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


class Launching:
    """A launch with the values of its arguments.

    It ends as upstream: on Ctrl-C, a Shutdown, an error, and when there is no process left. Every process gets SIGINT
    once, SIGTERM and SIGKILL only if it outlives its timeouts. Unlike upstream, SIGTERM and SIGHUP to the launching
    program end its processes as well.
    """

    def __init__(self, description: LaunchDescription, arguments: dict[str, str]) -> None:
        self._actions = description.entities
        self._context = LaunchContext()
        self._context.launch_configurations.update(arguments)
        self._return_code = 0

    def run(self) -> int:
        """Launch and return 0, or 1 after an error in a launch file, an action or a handler, or SIGTERM.

        As upstream, a process that fails does not fail the launch: a handler that raises does.
        """
        with self._context.files:
            asyncio.run(self._run())
        return self._return_code

    async def _run(self) -> None:
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)
        self._visit(lambda: self._actions)
        tasks = self._context.tasks
        while tasks:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            tasks -= done
            for task in done:
                self._visit(task.result)

    def _visit(self, actions: Callable[[], SomeActions]) -> None:
        try:
            found = actions()
            waiting = [found] if isinstance(found, Action) else list(found or [])
            while waiting:
                waiting[:1] = waiting[0].visit(self._context) or []
        except Exception as error:  # noqa: BLE001 (any error of a launch file ends the launch)
            self._return_code = 1
            self._context.stopping.set()
            report("ERROR", "launch", f"Caught exception in launch: {error}")

    def _on_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGINT:
            again = " again, ignoring..." if self._context.is_shutdown else ""
            report("WARNING", "launch", f"user interrupted with ctrl-c (SIGINT){again}")
        else:
            report("ERROR", "launch", f"received {number.name}, shutting down")
            self._return_code = 1
        self._context.stopping.set()


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
        with contextlib.suppress(OSError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())  # the buffer is written again at the end
