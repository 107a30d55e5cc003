"""Actions of launch files."""

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Union

from . import Action, LaunchContext, SomeActions, report, show
from .events.process import ProcessExited

OnExit = Union[SomeActions, Callable[[ProcessExited, LaunchContext], SomeActions]]


class DeclareLaunchArgument(Action):
    """An argument of a launch file; required without a default."""

    def __init__(self, name: str, *, default_value: str | None = None, description: str | None = None) -> None:
        self.name = name
        self.default_value = None if default_value is None else _plain(default_value)
        self.description = description or "no description given"

    def visit(self, context: LaunchContext) -> None:
        """Set the configuration of this name; RuntimeError without a value."""
        if self.name not in context.launch_configurations:
            if self.default_value is None:
                raise RuntimeError(f"launch argument '{self.name}' is required: give {self.name}:=VALUE")
            context.launch_configurations[self.name] = self.default_value


class ExecuteProcess(Action):
    """Starts a program, prints its lines with its name before them, and ends it when launching ends.

    It runs in a session of its own, so that a Ctrl-C in the terminal reaches it once: from here. `output` is "screen"
    or, by default, "log", which shows only the error stream; there is no log file. `sigterm_timeout` and
    `sigkill_timeout` [s]: after SIGINT until SIGTERM, and after SIGTERM until SIGKILL. on_exit: actions that follow the
    end of the process, or a function that returns them.
    """

    _numbers = itertools.count(1)

    def __init__(
        self,
        *,
        cmd: Iterable[str],
        name: str | None = None,
        additional_env: Mapping[str, str] | None = None,
        output: str = "log",
        on_exit: OnExit = None,
        sigterm_timeout: str = "5",
        sigkill_timeout: str = "5",
    ) -> None:
        if output not in ("screen", "log"):
            raise ValueError(f"a process asks for output '{output}': choose screen or log")
        self.cmd = list(cmd)
        self._name = name
        self._additional_env = additional_env or {}
        self._shows_output = output == "screen"
        self._on_exit = on_exit
        self._timeouts = (float(sigterm_timeout), float(sigkill_timeout))

    def visit(self, context: LaunchContext) -> None:
        """Start the program, unless launching is ending already."""
        if not context.is_shutdown:
            context.tasks.add(asyncio.get_running_loop().create_task(self._run(context)))

    async def _run(self, context: LaunchContext) -> SomeActions:
        name = f"{self._name or Path(self.cmd[0]).name}-{next(self._numbers)}"
        process = await asyncio.create_subprocess_exec(
            *self.cmd,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **self._additional_env},  # as ROS writes its lines
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
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

        streams = ((process.stdout, self._shows_output), (process.stderr, True))
        readers = [asyncio.create_task(read(stream, shown)) for stream, shown in streams]
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
            facts = f"pid {process.pid}, exit code {code}, cmd '{' '.join(self.cmd)}'"
            report("ERROR", name, f"process has died [{facts}].")
        return self._on_exit(ProcessExited(name, code), context) if callable(self._on_exit) else self._on_exit

    async def _stop_when_asked(self, context: LaunchContext, process: asyncio.subprocess.Process, name: str) -> None:
        """Send SIGINT, then SIGTERM and at last SIGKILL, each once and only if the process still runs."""

        def send(number: signal.Signals) -> None:
            with contextlib.suppress(ProcessLookupError):
                if number == signal.SIGKILL:
                    os.killpg(process.pid, number)
                else:
                    process.send_signal(number)
            report("INFO", name, f"sending signal '{number.name}' to process[{name}]")

        await context.stopping.wait()
        send(signal.SIGINT)
        steps = ("SIGINT", signal.SIGTERM), ("SIGTERM", signal.SIGKILL)
        for seconds, (last, number) in zip(self._timeouts, steps, strict=True):
            await asyncio.sleep(seconds)
            waited = f"process[{name}] failed to terminate '{seconds:g}' seconds after receiving '{last}'"
            report("ERROR", name, f"{waited}, escalating to '{number.name}'")
            send(number)


class LogInfo(Action):
    """Prints a message."""

    def __init__(self, *, msg: str) -> None:
        self.msg = _plain(msg)

    def visit(self, context: LaunchContext) -> None:
        """Print the message."""
        report("INFO", "launch.user", self.msg)


class OpaqueFunction(Action):
    """Calls function(context) and visits the actions that it returns."""

    def __init__(self, *, function: Callable[[LaunchContext], Sequence[Action] | None]) -> None:
        self._function = function

    def visit(self, context: LaunchContext) -> list[Action]:
        """Call the function."""
        return list(self._function(context) or [])


class Shutdown(Action):
    """Ends launching."""

    def __init__(self, *, reason: str = "reason not given") -> None:
        self.reason = reason

    def visit(self, context: LaunchContext) -> None:
        """Let launching end."""
        context.stopping.set()


def _plain(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {value!r}: the stand-in has no substitutions in texts")
    return value
