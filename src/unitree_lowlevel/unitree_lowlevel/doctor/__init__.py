"""Checks of computer, network, board and robot that move nothing, and the outcome of a check."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import NamedTuple


class Level(Enum):
    """Fine, worth knowing, or a reason not to start this robot."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


class Outcome(NamedTuple):
    """The level of a check and a sentence that says what to do where it is bad."""

    level: Level
    message: str


ok, warning, failed = (partial(Outcome, level) for level in Level)
