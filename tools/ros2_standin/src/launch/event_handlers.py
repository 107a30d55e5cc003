"""Handlers of events. Without `target_action` a handler is for every process."""

from __future__ import annotations

from collections.abc import Callable

from .core import Action, Event, EventHandler, LaunchContext, Reaction, SomeEntities
from .events import Shutdown
from .events.process import ProcessEvent, ProcessExited, ProcessIO


def _of_process(kind: type[ProcessEvent], action: Action | None) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, kind) and action in (None, event.action)


class OnProcessExit(EventHandler):
    """Reacts when a process has ended."""

    def __init__(self, *, target_action: Action | None = None, on_exit: Reaction) -> None:
        super().__init__(matcher=_of_process(ProcessExited, target_action), entities=on_exit)


class OnProcessIO(EventHandler):
    """Reacts when a process has written something."""

    def __init__(
        self,
        *,
        target_action: Action | None = None,
        on_stdout: Callable[[ProcessIO], SomeEntities] | None = None,
        on_stderr: Callable[[ProcessIO], SomeEntities] | None = None,
    ) -> None:
        def react(event: ProcessIO, _context: LaunchContext) -> SomeEntities:
            reaction = on_stdout if event.from_stdout else on_stderr
            return None if reaction is None else reaction(event)

        super().__init__(matcher=_of_process(ProcessIO, target_action), entities=react)


class OnShutdown(EventHandler):
    """Reacts when launching ends."""

    def __init__(self, *, on_shutdown: Reaction) -> None:
        super().__init__(matcher=lambda event: isinstance(event, Shutdown), entities=on_shutdown)
