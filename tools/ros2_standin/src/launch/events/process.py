"""Events of processes."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Action, Event


@dataclass(frozen=True)
class ProcessExited(Event):
    """The process of `action` has ended with `returncode`, negative for the signal that ended it."""

    action: Action
    process_name: str
    cmd: list[str]
    pid: int
    returncode: int
