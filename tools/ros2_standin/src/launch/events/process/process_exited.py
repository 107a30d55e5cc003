"""The event of a process that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..event import Event

if TYPE_CHECKING:
    from ...actions import ExecuteProcess


class ProcessExited(Event):
    """A process of `action` has ended with `returncode`, negative for the signal that ended it."""

    def __init__(self, *, action: ExecuteProcess, name: str, cmd: list[str], pid: int, returncode: int) -> None:
        self.action = action
        self.process_name = name
        self.cmd = cmd
        self.pid = pid
        self.returncode = returncode
