"""The event of a process that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..event import Event

if TYPE_CHECKING:
    from ...actions import ExecuteProcess


class ProcessStarted(Event):
    """A process of `action` runs."""

    def __init__(self, *, action: ExecuteProcess, name: str, cmd: list[str], pid: int) -> None:
        self.action = action
        self.process_name = name
        self.cmd = cmd
        self.pid = pid
