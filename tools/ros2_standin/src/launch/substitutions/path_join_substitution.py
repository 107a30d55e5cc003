"""A path made of parts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..launch_context import LaunchContext
from ..substitution import SomeSubstitutions, Substitution, normalize, perform


class PathJoinSubstitution(Substitution):
    """A path made of parts."""

    def __init__(self, substitutions: Iterable[SomeSubstitutions]) -> None:
        self._parts = [normalize(part) for part in substitutions]

    def perform(self, context: LaunchContext) -> str:
        """Return the parts joined by slashes."""
        return str(Path(*(perform(context, part) for part in self._parts)))

    def describe(self) -> str:
        """Return the parts."""
        return f"PathJoin({', '.join(' + '.join(part.describe() for part in parts) for parts in self._parts)})"
