"""A process of the launch."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..action import Action
from ..conditions import Condition
from ..event_handlers import OnProcessExit, OnShutdown
from ..event_handlers.event_handler import Reaction
from ..events import Event
from ..events.process import ProcessExited, ProcessStarted
from ..launch_context import LaunchContext
from ..output import report
from ..running_process import RunningProcess
from ..substitution import SomeSubstitutions, perform

OUTPUTS = ("screen", "log", "both")


class ExecuteProcess(Action):
    """Starts a program, prints its lines with its name before them, and ends it when launching ends.

    `output` is "screen", "both" or, by default, "log", which shows only the error stream; there is no log file.
    `respawn` starts the program again, `respawn_delay` seconds after its end, until launching ends.
    """

    _numbers = itertools.count(1)

    def __init__(
        self,
        *,
        cmd: Iterable[SomeSubstitutions],
        name: SomeSubstitutions | None = None,
        cwd: SomeSubstitutions | None = None,
        env: Mapping[str, SomeSubstitutions] | None = None,
        additional_env: Mapping[str, SomeSubstitutions] | None = None,
        output: SomeSubstitutions = "log",
        on_exit: Reaction = None,
        respawn: bool | SomeSubstitutions = False,
        respawn_delay: float | None = None,
        sigterm_timeout: SomeSubstitutions = "5",
        sigkill_timeout: SomeSubstitutions = "5",
        condition: Condition | None = None,
    ) -> None:
        super().__init__(condition=condition)
        self.cmd = list(cmd)
        self._name = name
        self._cwd = cwd
        self._env = env
        self._additional_env = additional_env or {}
        self._output = output
        self._on_exit = on_exit
        self._respawn = respawn
        self._respawn_delay = respawn_delay or 0.0
        self._timeouts = (sigterm_timeout, sigkill_timeout)
        self._stopping = asyncio.Event()
        self._running: RunningProcess | None = None

    def execute(self, context: LaunchContext) -> None:
        """Start the program, unless launching is ending already."""
        if context.is_shutdown:
            return
        process = self._describe(context)
        respawn = self._respawn is True
        if not isinstance(self._respawn, bool):
            respawn = Condition(self._respawn).evaluate(context)
        context.register_event_handler(OnProcessExit(target_action=self, on_exit=self._on_exit))
        context.register_event_handler(OnShutdown(on_shutdown=self._on_shutdown))
        context.start(self._run(context, process, respawn))

    def _describe(self, context: LaunchContext) -> RunningProcess:
        cmd = [perform(context, part) for part in self.cmd]
        name = Path(cmd[0]).name if self._name is None else perform(context, self._name)
        output = perform(context, self._output)
        if output not in OUTPUTS:
            raise ValueError(f"process {name} asks for output '{output}': choose one of {', '.join(OUTPUTS)}")
        env = context.environment if self._env is None else self._performed(context, self._env)
        return RunningProcess(
            name=f"{name}-{next(self._numbers)}",
            cmd=cmd,
            cwd=None if self._cwd is None else perform(context, self._cwd),
            env={**env, **self._performed(context, self._additional_env)},
            shows_output=output != "log",
            timeouts=(float(perform(context, self._timeouts[0])), float(perform(context, self._timeouts[1]))),
        )

    @staticmethod
    def _performed(context: LaunchContext, texts: Mapping[str, SomeSubstitutions]) -> dict[str, str]:
        return {name: perform(context, value) for name, value in texts.items()}

    async def _run(self, context: LaunchContext, process: RunningProcess, respawn: bool) -> None:
        while not self._stopping.is_set():
            self._running = process
            pid = await process.start()
            report("INFO", process.name, f"process started with pid [{pid}]")
            context.emit_event(ProcessStarted(action=self, name=process.name, cmd=process.cmd, pid=pid))
            stopper = asyncio.create_task(self._stop_when_asked(process))
            returncode = await process.wait()
            stopper.cancel()
            self._tell_end(context, process, pid, returncode)
            if not respawn:
                return
            try:
                await asyncio.wait_for(self._stopping.wait(), self._respawn_delay)
            except asyncio.TimeoutError:
                continue

    async def _stop_when_asked(self, process: RunningProcess) -> None:
        await self._stopping.wait()
        await process.stop()

    def _tell_end(self, context: LaunchContext, process: RunningProcess, pid: int, returncode: int) -> None:
        if returncode == 0:
            report("INFO", process.name, f"process has finished cleanly [pid {pid}]")
        else:
            command = " ".join(process.cmd)
            report("ERROR", process.name, f"process has died [pid {pid}, exit code {returncode}, cmd '{command}'].")
        context.emit_event(
            ProcessExited(action=self, name=process.name, cmd=process.cmd, pid=pid, returncode=returncode)
        )

    def _on_shutdown(self, _event: Event, _context: LaunchContext) -> None:
        self._stopping.set()
