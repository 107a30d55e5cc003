"""Runs a launch description: its actions, and the actions that follow each process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from . import Action, LaunchContext, LaunchDescription, SomeActions, report

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
