"""Actions of launch files."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .core import (
    Action,
    Event,
    LaunchContext,
    LaunchDescriptionEntity,
    Reaction,
    SomeSubstitutions,
    perform,
    report,
    show,
)
from .events import Shutdown as ShutdownEvent
from .events.process import ProcessExited
from .launch_description_sources import PythonLaunchDescriptionSource

OUTPUTS = ("screen", "log", "both")


class DeclareLaunchArgument(Action):
    """An argument of a launch file; required without a default."""

    def __init__(
        self, name: str, *, default_value: SomeSubstitutions | None = None, description: str | None = None
    ) -> None:
        self.name = name
        self.default_value = default_value
        self.description = description or "no description given"

    def execute(self, context: LaunchContext) -> None:
        """Set the configuration of this name; RuntimeError without a value."""
        if self.name not in context.launch_configurations:
            if self.default_value is None:
                raise RuntimeError(f"launch argument '{self.name}' is required: give {self.name}:=VALUE")
            context.launch_configurations[self.name] = perform(context, self.default_value)


class ExecuteProcess(Action):
    """Starts a program, prints its lines with its name before them, and ends it when launching ends.

    It runs in a session of its own, so that a Ctrl-C in the terminal reaches it once: from here. `output` is "screen",
    "both" or, by default, "log", which shows only the error stream; there is no log file. `sigterm_timeout` and
    `sigkill_timeout` [s]: after SIGINT until SIGTERM, and after SIGTERM until SIGKILL.
    """

    _numbers = itertools.count(1)

    def __init__(
        self,
        *,
        cmd: Iterable[SomeSubstitutions],
        name: SomeSubstitutions | None = None,
        additional_env: Mapping[str, SomeSubstitutions] | None = None,
        output: SomeSubstitutions = "log",
        on_exit: Reaction = None,
        sigterm_timeout: SomeSubstitutions = "5",
        sigkill_timeout: SomeSubstitutions = "5",
    ) -> None:
        self.cmd = list(cmd)
        self._name = name
        self._additional_env = additional_env or {}
        self._output = output
        self._on_exit = on_exit
        self._timeouts = (sigterm_timeout, sigkill_timeout)
        self._stopping = asyncio.Event()

    def execute(self, context: LaunchContext) -> None:
        """Start the program, unless launching is ending already."""
        if context.is_shutdown:
            return
        cmd = [perform(context, part) for part in self.cmd]
        name = Path(cmd[0]).name if self._name is None else perform(context, self._name)
        output = perform(context, self._output)
        if output not in OUTPUTS:
            raise ValueError(f"process {name} asks for output '{output}': choose one of {', '.join(OUTPUTS)}")
        context.handlers.insert(0, lambda event: self._handle(event, context))
        context.start(self._run(context, cmd, f"{name}-{next(self._numbers)}", output != "log"))

    def _handle(self, event: Event, context: LaunchContext) -> list[LaunchDescriptionEntity]:
        """Stop when launching ends; return what follows the end of this process."""
        if isinstance(event, ShutdownEvent):
            self._stopping.set()
        if not (isinstance(event, ProcessExited) and event.action is self):
            return []
        found = self._on_exit(event, context) if callable(self._on_exit) else self._on_exit
        return [found] if isinstance(found, LaunchDescriptionEntity) else list(found or [])

    async def _run(self, context: LaunchContext, cmd: list[str], name: str, shows_output: bool) -> None:
        pipe = asyncio.subprocess.PIPE
        own = {key: perform(context, value) for key, value in self._additional_env.items()}
        process = await asyncio.create_subprocess_exec(
            *cmd,
            env={**context.environment, **own},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
        assert process.stdout is not None and process.stderr is not None
        report("INFO", name, f"process started with pid [{process.pid}]")

        async def read(stream: asyncio.StreamReader, shown: bool) -> None:
            rest = b""
            while chunk := await stream.read(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                if shown and lines:
                    show("\n".join(f"[{name}] {line.decode(errors='replace')}" for line in lines))
            if shown and rest:
                show(f"[{name}] {rest.decode(errors='replace')}")

        readers = [
            asyncio.create_task(read(process.stdout, shows_output)),
            asyncio.create_task(read(process.stderr, True)),
        ]
        stopper = asyncio.create_task(self._stop_when_asked(context, process, name))
        code = await process.wait()
        stopper.cancel()
        # A grandchild may hold the pipes open: read the output so far and do not wait for more.
        await asyncio.wait(readers, timeout=1.0)
        for reader in readers:
            reader.cancel()
        if code == 0:
            report("INFO", name, f"process has finished cleanly [pid {process.pid}]")
        else:
            facts = f"pid {process.pid}, exit code {code}, cmd '{' '.join(cmd)}'"
            report("ERROR", name, f"process has died [{facts}].")
        context.emit_event_sync(ProcessExited(self, name, cmd, process.pid, code))

    async def _stop_when_asked(self, context: LaunchContext, process: asyncio.subprocess.Process, name: str) -> None:
        """Send SIGINT, then SIGTERM and at last SIGKILL, each once and only if the process still runs."""
        await self._stopping.wait()
        _send(process, signal.SIGINT, name)
        steps = zip(self._timeouts, (signal.SIGTERM, signal.SIGKILL), ("SIGINT", "SIGTERM"), strict=True)
        for timeout, number, last in steps:
            seconds = float(perform(context, timeout))
            await asyncio.sleep(seconds)
            waited = f"process[{name}] failed to terminate '{seconds:g}' seconds after receiving '{last}'"
            report("ERROR", name, f"{waited}, escalating to '{number.name}'")
            _send(process, number, name)


def _send(process: asyncio.subprocess.Process, number: signal.Signals, name: str) -> None:
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
    report("INFO", name, f"sending signal '{number.name}' to process[{name}]")


class IncludeLaunchDescription(Action):
    """Visits another launch file with the given arguments, which that file must have declared."""

    def __init__(
        self,
        launch_description_source: PythonLaunchDescriptionSource,
        *,
        launch_arguments: Iterable[tuple[SomeSubstitutions, SomeSubstitutions]] | None = None,
    ) -> None:
        self._source = launch_description_source
        self._arguments = list(launch_arguments or [])

    def describe_sub_entities(self) -> list[LaunchDescriptionEntity]:
        """Return the included description."""
        return [self._source.get_launch_description(LaunchContext())]

    def execute(self, context: LaunchContext) -> list[LaunchDescriptionEntity]:
        """Set the arguments and return the description; RuntimeError for an argument that it does not declare."""
        description = self._source.get_launch_description(context)
        declared = [argument.name for argument in declared_arguments(description)]
        for name, value in self._arguments:
            text = perform(context, name)
            if text not in declared:
                file, known = self._source.path(context).name, ", ".join(declared) or "none"
                raise RuntimeError(f"launch argument '{text}' is not declared by {file}, which takes: {known}")
            context.launch_configurations[text] = perform(context, value)
        return [description]


def declared_arguments(entity: LaunchDescriptionEntity) -> list[DeclareLaunchArgument]:
    """Return every argument declared in `entity` and in the files that it includes, once by name."""
    found: dict[str, DeclareLaunchArgument] = {}
    waiting = [entity]
    while waiting:
        first = waiting.pop(0)
        if isinstance(first, DeclareLaunchArgument):
            found.setdefault(first.name, first)
        waiting = first.describe_sub_entities() + waiting
    return list(found.values())


class LogInfo(Action):
    """Prints a message."""

    def __init__(self, *, msg: SomeSubstitutions) -> None:
        self.msg = msg

    def execute(self, context: LaunchContext) -> None:
        """Print the message."""
        report("INFO", "launch.user", perform(context, self.msg))


class OpaqueFunction(Action):
    """Calls function(context, *args) and visits the entities that it returns."""

    def __init__(
        self,
        *,
        function: Callable[..., Sequence[LaunchDescriptionEntity] | None],
        args: Iterable[Any] | None = None,
    ) -> None:
        self._function = function
        self._args = list(args or [])

    def execute(self, context: LaunchContext) -> list[LaunchDescriptionEntity]:
        """Call the function."""
        return list(self._function(context, *self._args) or [])


class Shutdown(Action):
    """Ends launching; as `on_exit=Shutdown()` it makes a process required."""

    def __init__(self, *, reason: str = "reason not given") -> None:
        self._reason = reason

    def execute(self, context: LaunchContext) -> None:
        """Let launching end."""
        context.emit_event_sync(ShutdownEvent(reason=self._reason))
