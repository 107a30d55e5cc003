"""Problems of a recording: what could not be read or used, each with its kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["damaged", "left_out", "no_stamp", "gap"]


@dataclass(frozen=True)
class Problem:
    """kind: "damaged" for files and messages that are damaged, "left_out" for messages, joints or commands that are not
    used, "no_stamp" for messages without a stamp, "gap" for missing times; sentence: for people.
    """

    kind: Kind
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def damage(path: Path, offset: int | None, what: str) -> Problem:
    """Return the problem of a file that is damaged at `offset` [bytes]; None if its storage does not say where."""
    return Problem("damaged", f"{path} is damaged{'' if offset is None else f' at byte {offset}'}: {what}")
