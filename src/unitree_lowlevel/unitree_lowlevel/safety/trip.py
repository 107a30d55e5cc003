"""What safety has found, and what made it let go of the motors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """What a finding does: only be told; also stop or keep joints from following; or latch damping in any case."""

    WARNING = 0
    NO_FOLLOWING = 1
    ALWAYS = 2


@dataclass(frozen=True)
class Finding:
    """Something is not as it should be: the name of the check and a reason in words."""

    name: str
    reason: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Trip:
    """Why the joints were let go: the name of the check, a reason in words, and when [s, time.monotonic]."""

    name: str
    reason: str
    time: float

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"
