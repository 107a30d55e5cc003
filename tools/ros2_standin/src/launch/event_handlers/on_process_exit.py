"""The handler for processes that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..events.process import ProcessExited
from .event_handler import EventHandler, Reaction

if TYPE_CHECKING:
    from ..actions import ExecuteProcess


class OnProcessExit(EventHandler):
    """Reacts when the process of `target_action`, or without one any process, has ended."""

    def __init__(self, *, target_action: ExecuteProcess | None = None, on_exit: Reaction) -> None:
        super().__init__(
            matcher=lambda event: isinstance(event, ProcessExited) and target_action in (None, event.action),
            reaction=on_exit,
        )
