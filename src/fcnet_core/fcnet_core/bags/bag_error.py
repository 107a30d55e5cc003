"""Why a bag cannot be read, or not to its end."""

from __future__ import annotations

from pathlib import Path


class BagError(ValueError):
    """A bag cannot be used at all; one sentence that names the file and says what to do."""


class DamagedBagError(BagError):
    """A file is damaged at `offset` [bytes], None where its storage does not tell; what lies before is good."""

    def __init__(self, path: Path, offset: int | None, what: str) -> None:
        where = "" if offset is None else f" at byte {offset}"
        super().__init__(f"{path} is damaged{where}: {what}")
        self.path = path
        self.offset = offset
