"""Handlers of events."""

from __future__ import annotations

from .core import Action, Event, EventHandler, Reaction
from .events import Shutdown
from .events.process import ProcessExited


class OnProcessExit(EventHandler):
    """Reacts when a process has ended, without `target_action` any."""

    def __init__(self, *, target_action: Action | None = None, on_exit: Reaction) -> None:
        def matches(event: Event) -> bool:
            return isinstance(event, ProcessExited) and target_action in (None, event.action)

        super().__init__(matcher=matches, entities=on_exit)


class OnShutdown(EventHandler):
    """Reacts when launching ends."""

    def __init__(self, *, on_shutdown: Reaction) -> None:
        super().__init__(matcher=lambda event: isinstance(event, Shutdown), entities=on_shutdown)
