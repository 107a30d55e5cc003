"""Parameters of all nodes of a scope."""

from __future__ import annotations

from launch.action import Action
from launch.conditions import Condition
from launch.launch_context import LaunchContext
from launch.substitution import SomeSubstitutions, perform

from ..parameter_values import SomeParameterValue, evaluate_value


class SetParameter(Action):
    """Sets a parameter of every node started after it in its scope; a node's own files win over it."""

    def __init__(
        self, name: SomeSubstitutions, value: SomeParameterValue, *, condition: Condition | None = None
    ) -> None:
        super().__init__(condition=condition)
        self._name = name
        self._value = value

    def execute(self, context: LaunchContext) -> None:
        """Remember the parameter for the nodes to come."""
        parameters = context.launch_configurations.setdefault("global_params", [])
        name = perform(context, self._name)
        parameters.append((name, evaluate_value(context, name, self._value)))
