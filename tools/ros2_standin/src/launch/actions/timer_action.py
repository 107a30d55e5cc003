"""Actions that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ..action import Action
from ..conditions import Condition
from ..entity import Entity
from ..event_handlers import EventHandler, OnShutdown
from ..events import TimerEvent
from ..launch_context import LaunchContext
from ..substitution import SomeSubstitutions, perform


class TimerAction(Action):
    """Visits actions once, `period` seconds later, unless launching ends before."""

    def __init__(
        self,
        *,
        period: float | SomeSubstitutions,
        actions: Iterable[Entity],
        condition: Condition | None = None,
    ) -> None:
        super().__init__(condition=condition)
        self._period = period
        self._actions = list(actions)
        self._cancelled = asyncio.Event()

    def sub_entities(self) -> list[Entity]:
        """Return the actions."""
        return self._actions

    def cancel(self) -> None:
        """Visit nothing after all."""
        self._cancelled.set()

    def execute(self, context: LaunchContext) -> None:
        """Start waiting."""
        period = self._period if isinstance(self._period, (int, float)) else float(perform(context, self._period))
        context.register_event_handler(OnShutdown(on_shutdown=lambda _event, _context: self.cancel()))
        context.register_event_handler(
            EventHandler(
                matcher=lambda event: isinstance(event, TimerEvent) and event.timer_action is self,
                reaction=self._actions,
            )
        )
        context.start(self._wait(context, float(period)))

    async def _wait(self, context: LaunchContext, period: float) -> None:
        try:
            await asyncio.wait_for(self._cancelled.wait(), period)
        except asyncio.TimeoutError:
            context.emit_event(TimerEvent(timer_action=self))
