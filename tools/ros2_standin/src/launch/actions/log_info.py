"""A message."""

from __future__ import annotations

from ..action import Action
from ..conditions import Condition
from ..launch_context import LaunchContext
from ..output import report
from ..substitution import SomeSubstitutions, perform


class LogInfo(Action):
    """Prints a message."""

    def __init__(self, *, msg: SomeSubstitutions, condition: Condition | None = None) -> None:
        super().__init__(condition=condition)
        self.msg = msg

    def execute(self, context: LaunchContext) -> None:
        """Print the message."""
        report("INFO", "launch.user", perform(context, self.msg))
