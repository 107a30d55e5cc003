"""The action that makes an event happen."""

from __future__ import annotations

from ..action import Action
from ..conditions import Condition
from ..events import Event
from ..launch_context import LaunchContext


class EmitEvent(Action):
    """Makes an event happen."""

    def __init__(self, *, event: Event, condition: Condition | None = None) -> None:
        super().__init__(condition=condition)
        self.event = event

    def execute(self, context: LaunchContext) -> None:
        """Queue the event."""
        context.emit_event(self.event)
