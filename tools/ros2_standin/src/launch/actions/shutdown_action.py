"""The action that ends launching."""

from __future__ import annotations

from ..conditions import Condition
from ..events import Shutdown as ShutdownEvent
from .emit_event import EmitEvent


class Shutdown(EmitEvent):
    """Ends launching; as `on_exit=Shutdown()` it makes a process required."""

    def __init__(self, *, reason: str = "reason not given", condition: Condition | None = None) -> None:
        super().__init__(event=ShutdownEvent(reason=reason), condition=condition)
