"""An argument of a launch file."""

from __future__ import annotations

from collections.abc import Iterable

from ..action import Action
from ..conditions import Condition
from ..launch_context import LaunchContext
from ..substitution import SomeSubstitutions, normalize, perform


class DeclareLaunchArgument(Action):
    """An argument of a launch file: required without a default, one of `choices` if there are any."""

    def __init__(
        self,
        name: str,
        *,
        default_value: SomeSubstitutions | None = None,
        description: str | None = None,
        choices: Iterable[str] | None = None,
        condition: Condition | None = None,
    ) -> None:
        super().__init__(condition=condition)
        self.name = name
        self.default_value = None if default_value is None else normalize(default_value)
        self.choices = None if choices is None else list(choices)
        self.description = self._describe(description)

    def _describe(self, description: str | None) -> str:
        if self.choices is None:
            return description or "no description given"
        if description is None:
            return f"One of: {self.choices}"
        return f"{description.rstrip('.')}. Valid choices are: {self.choices}"

    def execute(self, context: LaunchContext) -> None:
        """Set the configuration of this name; RuntimeError without a value or with one that is no choice."""
        if self.name not in context.launch_configurations:
            if self.default_value is None:
                raise RuntimeError(f"launch argument '{self.name}' is required: give {self.name}:=VALUE")
            context.launch_configurations[self.name] = perform(context, self.default_value)
        value = context.launch_configurations[self.name]
        if self.choices is not None and value not in self.choices:
            raise RuntimeError(f"launch argument '{self.name}' is '{value}': choose one of {', '.join(self.choices)}")
