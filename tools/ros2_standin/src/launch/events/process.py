"""Events of processes."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Action, Event


@dataclass(frozen=True)
class ProcessEvent(Event):
    """Something happened to the process of `action`."""

    action: Action
    process_name: str
    cmd: list[str]
    pid: int


@dataclass(frozen=True)
class ProcessExited(ProcessEvent):
    """The process has ended with `returncode`, negative for the signal that ended it."""

    returncode: int


@dataclass(frozen=True)
class ProcessIO(ProcessEvent):
    """The process has written `text` to its output or its error stream."""

    text: bytes
    from_stdout: bool

    @property
    def from_stderr(self) -> bool:
        """Whether it is the error stream."""
        return not self.from_stdout
