"""A path made of parts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..launch_context import LaunchContext
from ..substitution import Substitution, normalize


class PathJoinSubstitution(Substitution):
    """A path made of parts."""

    def __init__(self, substitutions: Iterable[str | Substitution]) -> None:
        self._parts = normalize(substitutions)

    def perform(self, context: LaunchContext) -> str:
        """Return the parts joined by slashes."""
        return str(Path(*(part.perform(context) for part in self._parts)))

    def describe(self) -> str:
        """Return the parts."""
        return f"PathJoin({', '.join(part.describe() for part in self._parts)})"
