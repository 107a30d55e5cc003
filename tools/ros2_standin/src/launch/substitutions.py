"""Texts that are known only while launching."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .core import LaunchContext, SomeSubstitutions, Substitution, parts_of, perform


class SubstitutionFailure(RuntimeError):
    """A substitution has no value."""


class LaunchConfiguration(Substitution):
    """The value of a launch argument."""

    def __init__(self, variable_name: SomeSubstitutions) -> None:
        self._name = parts_of(variable_name)

    def perform(self, context: LaunchContext) -> str:
        """Return the value; SubstitutionFailure if there is none."""
        name = perform(context, self._name)
        if name not in context.launch_configurations:
            raise SubstitutionFailure(f"launch configuration '{name}' does not exist: declare it as an argument")
        return context.launch_configurations[name]


class PathJoinSubstitution(Substitution):
    """A path made of parts."""

    def __init__(self, substitutions: Iterable[str | Substitution]) -> None:
        self._parts = parts_of(substitutions)

    def perform(self, context: LaunchContext) -> str:
        """Return the parts joined by slashes."""
        return str(Path(*(perform(context, part) for part in self._parts)))
