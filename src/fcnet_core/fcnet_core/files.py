"""Settings files read strictly, and files written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

# Reads a settings file entry by entry, so that a mistake in it is told instead of passed over.

class StrictEntries:
    """One mapping of a file, of which every entry is taken by its name; `finish` refuses what is left.

    Raises ValueError with a phrase that names the entry.
    """

    def __init__(self, where: str, facts: Any) -> None:
        if not isinstance(facts, dict):
            raise ValueError(f"{where} must have entries, not {facts!r}")
        self.where = where
        self._facts = dict(facts)

    def take(self, name: str) -> Any:
        """The entry of that name, whatever it is."""
        if name not in self._facts:
            raise ValueError(f"entry {name} of {self.where} is missing")
        return self._facts.pop(name)

    def take_if_there(self, name: str, default: Any) -> Any:
        """The entry of that name, or `default`."""
        return self._facts.pop(name, default)

    def section(self, name: str) -> StrictEntries:
        """The entry of that name, which has entries itself."""
        return StrictEntries(f"{self.where}.{name}", self.take(name))

    def text(self, name: str) -> str:
        """The entry of that name, which is a word."""
        value = self.take(name)
        if not isinstance(value, str) or not value:
            raise ValueError(f"{self.where}.{name} must be a word, not {value!r}")
        return value

    def number(self, name: str, lowest: float, highest: float) -> float:
        """The entry of that name, which is a number between `lowest` and `highest`."""
        value = self.take(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not lowest <= value <= highest:
            raise ValueError(f"{self.where}.{name} must be a number between {lowest:g} and {highest:g}, not {value!r}")
        return float(value)

    def words(self, name: str) -> tuple[str, ...]:
        """The entry of that name, which is a list of at least one word."""
        return words(f"{self.where}.{name}", self.take(name))

    def finish(self) -> None:
        """Refuse entries that nobody has taken."""
        if self._facts:
            raise ValueError(f"{self.where} has unknown entries {', '.join(map(str, self._facts))}")


def words(where: str, value: Any) -> tuple[str, ...]:
    """A list of at least one word. Raises ValueError that says what stands there instead."""
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{where} must be a list of words [in quotes where YAML reads something else], not {value!r}")
    return tuple(value)


# Files that are written whole or not at all.

def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path` by way of a temporary file beside it: a reader sees the old file or the new one.

    Raises OSError when the disk refuses; no temporary file stays behind then, nor after Ctrl-C.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
