"""The handler for the end of launching."""

from __future__ import annotations

from ..events import Shutdown
from .event_handler import EventHandler, Reaction


class OnShutdown(EventHandler):
    """Reacts when launching ends."""

    def __init__(self, *, on_shutdown: Reaction) -> None:
        super().__init__(matcher=lambda event: isinstance(event, Shutdown), reaction=on_shutdown)
