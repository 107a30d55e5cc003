"""The value of a Python expression."""

from __future__ import annotations

import math

from ..launch_context import LaunchContext
from ..substitution import SomeSubstitutions, Substitution, SubstitutionFailure, normalize, perform


class PythonExpression(Substitution):
    """The value of a Python expression in which the names of `math` are known."""

    def __init__(self, expression: SomeSubstitutions) -> None:
        self.expression = normalize(expression)

    def perform(self, context: LaunchContext) -> str:
        """Return the value as text; SubstitutionFailure if the expression is invalid."""
        text = perform(context, self.expression)
        try:
            return str(eval(text, {"math": math, **vars(math)}))
        except (SyntaxError, NameError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            raise SubstitutionFailure(f"the Python expression {text!r} has no value: {error}") from error

    def describe(self) -> str:
        """Return the expression."""
        return f"PythonExpr({' + '.join(part.describe() for part in self.expression)})"
