"""Why a bag cannot be read, or not to its end."""

from __future__ import annotations

from pathlib import Path


class BagError(ValueError):
    """A bag cannot be used at all; one sentence that names the file and says what to do."""


class DamagedBagError(BagError):
    """A file is damaged at `offset` [bytes]; what lies before is good."""

    def __init__(self, path: Path, offset: int, what: str) -> None:
        super().__init__(f"{path} is damaged at byte {offset}: {what}")
        self.path = path
        self.offset = offset
