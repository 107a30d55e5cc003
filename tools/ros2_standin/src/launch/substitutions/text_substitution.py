"""A fixed text."""

from __future__ import annotations

from ..launch_context import LaunchContext
from ..substitution import Substitution


class TextSubstitution(Substitution):
    """A fixed text."""

    def __init__(self, *, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"TextSubstitution takes a text, not {text!r} of type {type(text).__name__}")
        self.text = text

    def perform(self, context: LaunchContext) -> str:
        """Return the text."""
        return self.text

    def describe(self) -> str:
        """Return the text in quotes."""
        return f"'{self.text}'"
