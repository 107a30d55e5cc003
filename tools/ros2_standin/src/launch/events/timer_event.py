"""The event of a timer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .event import Event

if TYPE_CHECKING:
    from ..actions import TimerAction


class TimerEvent(Event):
    """A timer's period has passed."""

    def __init__(self, *, timer_action: TimerAction) -> None:
        self.timer_action = timer_action
