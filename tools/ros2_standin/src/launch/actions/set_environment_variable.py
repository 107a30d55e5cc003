"""Environment of the processes."""

from __future__ import annotations

from ..action import Action
from ..conditions import Condition
from ..launch_context import LaunchContext
from ..substitution import SomeSubstitutions, perform


class SetEnvironmentVariable(Action):
    """Sets an environment variable of the processes started after it."""

    def __init__(
        self, name: SomeSubstitutions, value: SomeSubstitutions, *, condition: Condition | None = None
    ) -> None:
        super().__init__(condition=condition)
        self._name = name
        self._value = value

    def execute(self, context: LaunchContext) -> None:
        """Set the variable."""
        context.environment[perform(context, self._name)] = perform(context, self._value)
