"""Texts that are known only while launching."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from .launch_context import LaunchContext


class Substitution:
    """A text that is known only while launching."""

    def perform(self, context: LaunchContext) -> str:
        """Return the text."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return what to show where the text is not known yet."""
        raise NotImplementedError


SomeSubstitutions = Union[str, Substitution, Iterable[Union[str, Substitution]]]


class SubstitutionFailure(RuntimeError):
    """A substitution has no value."""


def normalize(value: SomeSubstitutions) -> list[Substitution]:
    """Return the substitutions whose joined texts `value` means; TypeError for anything else."""
    from .substitutions import TextSubstitution

    parts = [value] if isinstance(value, (str, Substitution)) else list(value)
    for part in parts:
        if not isinstance(part, (str, Substitution)):
            raise TypeError(f"a text or a substitution was expected, not {part!r} of type {type(part).__name__}")
    return [TextSubstitution(text=part) if isinstance(part, str) else part for part in parts]


def perform(context: LaunchContext, value: SomeSubstitutions) -> str:
    """Return the joined texts of `value`."""
    return "".join(part.perform(context) for part in normalize(value))
