"""Checks of computer, network, board and robot that move nothing, and the result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """Fine, worth knowing, or a reason not to start this robot."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True)
class CheckResult:
    """One line of the doctor: the check's name, its level, and a sentence that says what to do where it is bad."""

    check: str
    level: Level
    message: str

    def __str__(self) -> str:
        return f"{self.level.value:<8} {self.check:<18} {self.message}"


def ok(check: str, message: str) -> CheckResult:
    """All is as it should be."""
    return CheckResult(check, Level.OK, message)


def warning(check: str, message: str) -> CheckResult:
    """The robot may be started, but a person should know."""
    return CheckResult(check, Level.WARNING, message)


def failed(check: str, message: str) -> CheckResult:
    """The robot must not be started."""
    return CheckResult(check, Level.FAILED, message)
