"""The handler for processes that have started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..events.process import ProcessStarted
from .event_handler import EventHandler, Reaction

if TYPE_CHECKING:
    from ..actions import ExecuteProcess


class OnProcessStart(EventHandler):
    """Reacts when the process of `target_action`, or without one any process, has started."""

    def __init__(self, *, target_action: ExecuteProcess | None = None, on_start: Reaction) -> None:
        super().__init__(
            matcher=lambda event: isinstance(event, ProcessStarted) and target_action in (None, event.action),
            reaction=on_start,
        )
