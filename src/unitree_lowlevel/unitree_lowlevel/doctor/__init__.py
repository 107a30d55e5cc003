"""Checks of computer, network, board and robot without motion, and the outcome of a check."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import NamedTuple


class Level(Enum):
    """Passed, passed with advice, or a reason not to start the robot."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


class Outcome(NamedTuple):
    """The level of a check and a message: the finding and the action to take."""

    level: Level
    message: str


ok, warning, failed = (partial(Outcome, level) for level in Level)
