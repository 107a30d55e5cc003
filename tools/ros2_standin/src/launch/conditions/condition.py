"""The base of all conditions."""

from __future__ import annotations

from ..launch_context import LaunchContext
from ..substitution import SomeSubstitutions, perform

TRUE, FALSE = ("true", "1"), ("false", "0")


class InvalidConditionExpressionError(ValueError):
    """A condition's text is neither true nor false."""


class Condition:
    """A text that is true or false while launching."""

    def __init__(self, predicate_expression: SomeSubstitutions) -> None:
        self._expression = predicate_expression

    def evaluate(self, context: LaunchContext) -> bool:
        """Tell whether the text is true or 1; InvalidConditionExpressionError unless it is false or 0."""
        text = perform(context, self._expression).strip().lower()
        if text not in TRUE + FALSE:
            raise InvalidConditionExpressionError(f"a condition says '{text}': expected true, 1, false or 0")
        return text in TRUE
