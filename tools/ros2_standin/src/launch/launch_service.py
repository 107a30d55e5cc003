"""Runs launch descriptions."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable

from .entity import Entity
from .events import Event, Shutdown
from .launch_context import LaunchContext
from .launch_description import LaunchDescription
from .output import report


class LaunchService:
    """Visits descriptions, handles events and waits for processes, then says whether all of it was in order.

    Shutting down takes upstream's way: on Ctrl-C, when a `Shutdown` is emitted, after an error and when nothing is
    left to do. Every process gets SIGINT once, SIGTERM and SIGKILL only if it outlives its timeouts. Unlike upstream,
    SIGTERM and SIGHUP to the launching program end its processes as well.
    """

    def __init__(self, *, argv: Iterable[str] | None = None) -> None:
        self._argv = list(argv or [])
        self._descriptions: list[LaunchDescription] = []
        self._return_code = 0
        self._interrupted = False

    def include_launch_description(self, launch_description: LaunchDescription) -> None:
        """Visit `launch_description` when the service runs."""
        self._descriptions.append(launch_description)

    def run(self) -> int:
        """Launch and return 0, or 1 after an error in a launch file, an action or a handler, or SIGTERM.

        As upstream, a process that fails does not fail the launch: a handler that raises does.
        """
        return asyncio.run(self.run_async())

    async def run_async(self) -> int:
        """Do the same as `run` in a running event loop."""
        context = LaunchContext(argv=self._argv)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt, context)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_terminate, context, number)
        try:
            self._guarded_visit(context, list(self._descriptions))
            await self._handle_events_until_done(context)
        finally:
            context.close()
        return self._return_code

    async def _handle_events_until_done(self, context: LaunchContext) -> None:
        while True:
            context.changed.clear()
            while context.events:
                self._handle(context, context.events.popleft())
            self._collect_finished_tasks(context)
            if context.events:
                continue
            if context.tasks:
                await context.changed.wait()
            elif context.is_shutdown:
                return
            else:
                context.emit_event(Shutdown(reason="idle"))

    def _handle(self, context: LaunchContext, event: Event) -> None:
        if isinstance(event, Shutdown):
            if context.is_shutdown:
                return
            context.is_shutdown = True
        for handler in list(context.handlers):
            if handler.matches(event):
                try:
                    entities = handler.handle(event, context)
                except Exception as error:  # noqa: BLE001 (whatever a launch file raises ends the launch)
                    self._fail(context, error)
                else:
                    self._guarded_visit(context, entities)

    def _guarded_visit(self, context: LaunchContext, entities: Iterable[Entity]) -> None:
        try:
            self._visit(context, entities)
        except Exception as error:  # noqa: BLE001 (whatever a launch file raises ends the launch)
            self._fail(context, error)

    def _visit(self, context: LaunchContext, entities: Iterable[Entity]) -> None:
        for entity in entities:
            if not isinstance(entity, Entity):
                raise TypeError(f"a launch description holds actions, not {entity!r} of type {type(entity).__name__}")
            self._visit(context, entity.visit(context) or [])

    def _fail(self, context: LaunchContext, error: BaseException) -> None:
        report("ERROR", "launch", f"Caught exception in launch: {error}")
        self._return_code = 1
        context.emit_event(Shutdown(reason=str(error)))

    def _collect_finished_tasks(self, context: LaunchContext) -> None:
        for task in [task for task in context.tasks if task.done()]:
            context.tasks.discard(task)
            error = task.exception()
            if error is not None:
                self._fail(context, error)

    def _on_interrupt(self, context: LaunchContext) -> None:
        again = " again, ignoring..." if self._interrupted else ""
        report("WARNING", "launch", f"user interrupted with ctrl-c (SIGINT){again}")
        if not self._interrupted:
            self._interrupted = True
            context.emit_event(Shutdown(reason="ctrl-c (SIGINT)", due_to_sigint=True))

    def _on_terminate(self, context: LaunchContext, number: signal.Signals) -> None:
        report("ERROR", "launch", f"received {number.name}, shutting down")
        self._return_code = 1
        context.emit_event(Shutdown(reason=number.name))
