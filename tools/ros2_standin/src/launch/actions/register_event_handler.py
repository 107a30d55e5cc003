"""Reacting to events."""

from __future__ import annotations

from ..action import Action
from ..conditions import Condition
from ..event_handlers import EventHandler
from ..launch_context import LaunchContext


class RegisterEventHandler(Action):
    """Lets a handler see the events from now on."""

    def __init__(self, event_handler: EventHandler, *, condition: Condition | None = None) -> None:
        super().__init__(condition=condition)
        self._handler = event_handler

    def execute(self, context: LaunchContext) -> None:
        """Register the handler."""
        context.register_event_handler(self._handler)
