"""The condition that must be true."""

from .condition import Condition


class IfCondition(Condition):
    """Holds while its text is true."""
