"""The condition that must be false."""

from __future__ import annotations

from ..launch_context import LaunchContext
from .condition import Condition


class UnlessCondition(Condition):
    """Holds while its text is false."""

    def evaluate(self, context: LaunchContext) -> bool:
        """Tell whether the text is false or 0."""
        return not super().evaluate(context)
