"""The value of a launch argument."""

from __future__ import annotations

from ..launch_context import LaunchContext
from ..substitution import SomeSubstitutions, Substitution, SubstitutionFailure, normalize, perform


class LaunchConfiguration(Substitution):
    """The value of a launch argument or of a configuration set by an action."""

    def __init__(self, variable_name: SomeSubstitutions, *, default: SomeSubstitutions | None = None) -> None:
        self.variable_name = normalize(variable_name)
        self._default = default

    def perform(self, context: LaunchContext) -> str:
        """Return the value, else the default; SubstitutionFailure if there is neither."""
        name = perform(context, self.variable_name)
        if name in context.launch_configurations:
            return str(context.launch_configurations[name])
        if self._default is None:
            raise SubstitutionFailure(f"launch configuration '{name}' does not exist: declare it as an argument")
        return perform(context, self._default)

    def describe(self) -> str:
        """Return the name."""
        return f"LaunchConfig({' + '.join(part.describe() for part in self.variable_name)})"
