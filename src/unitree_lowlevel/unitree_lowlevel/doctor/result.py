"""What one check of the doctor has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How bad it is: fine, worth knowing, or a reason not to start this robot."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Finding:
    """One line of the doctor: the check's name, how bad it is, and a sentence that says what to do where it is bad."""

    check: str
    level: Level
    sentence: str

    def __str__(self) -> str:
        return f"{self.level.value:<8} {self.check:<18} {self.sentence}"


def ok(check: str, sentence: str) -> Finding:
    """All is as it should be."""
    return Finding(check, Level.OK, sentence)


def warning(check: str, sentence: str) -> Finding:
    """The robot may be started, but a person should know."""
    return Finding(check, Level.WARNING, sentence)


def failed(check: str, sentence: str) -> Finding:
    """The robot must not be started."""
    return Finding(check, Level.FAILED, sentence)
