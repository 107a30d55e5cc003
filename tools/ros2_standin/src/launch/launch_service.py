"""Runs launch descriptions."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable

from .core import Event, LaunchContext, LaunchDescription, LaunchDescriptionEntity, report
from .events import Shutdown

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LaunchService:
    """Visits descriptions, handles events and waits for processes, then reports success or failure.

    It shuts down as upstream: on Ctrl-C, when a `Shutdown` is emitted, after an error and when there is no process or
    event left. Every process gets SIGINT once, SIGTERM and SIGKILL only if it outlives its timeouts. Unlike upstream,
    SIGTERM and SIGHUP to the launching program end its processes as well.
    """

    def __init__(self) -> None:
        self.context = LaunchContext()
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
        return asyncio.run(self._run())

    async def _run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            self._visit(self._descriptions)
            await self._handle_events_until_done()
        finally:
            self.context.close()
            for number in SIGNALS:
                loop.remove_signal_handler(number)
        return self._return_code

    async def _handle_events_until_done(self) -> None:
        context = self.context
        while True:
            context.changed.clear()
            while context.events:
                self._handle(context.events.popleft())
            for task in [task for task in context.tasks if task.done()]:
                context.tasks.discard(task)
                if (error := task.exception()) is not None:
                    self._fail(error)
            if context.events:
                continue
            if context.tasks:
                await context.changed.wait()
            elif context.is_shutdown:
                return
            else:
                context.emit_event_sync(Shutdown(reason="idle"))

    def _handle(self, event: Event) -> None:
        if isinstance(event, Shutdown):
            if self.context.is_shutdown:
                return
            self.context.is_shutdown = True
        for handler in list(self.context.handlers):
            try:
                entities = handler(event)
            except Exception as error:  # noqa: BLE001 (any error of a launch file ends the launch)
                self._fail(error)
            else:
                self._visit(entities)

    def _visit(self, entities: Iterable[LaunchDescriptionEntity]) -> None:
        waiting = list(entities)
        try:
            while waiting:
                entity = waiting.pop(0)
                if not isinstance(entity, LaunchDescriptionEntity):
                    kind = type(entity).__name__
                    raise TypeError(f"a launch description holds actions, not {entity!r} of type {kind}")
                waiting = [*(entity.visit(self.context) or []), *waiting]
        except Exception as error:  # noqa: BLE001 (any error of a launch file ends the launch)
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._return_code = 1
        self.context.emit_event_sync(Shutdown(reason=str(error)))
        report("ERROR", "launch", f"Caught exception in launch: {error}")

    def _on_signal(self, number: signal.Signals) -> None:
        self.context.emit_event_sync(Shutdown(reason=number.name))
        if number == signal.SIGINT:
            again = " again, ignoring..." if self._interrupted else ""
            report("WARNING", "launch", f"user interrupted with ctrl-c (SIGINT){again}")
            self._interrupted = True
        else:
            report("ERROR", "launch", f"received {number.name}, shutting down")
            self._return_code = 1
