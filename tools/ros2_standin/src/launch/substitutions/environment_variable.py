"""The value of an environment variable."""

from __future__ import annotations

from ..launch_context import LaunchContext
from ..substitution import SomeSubstitutions, Substitution, SubstitutionFailure, normalize, perform


class EnvironmentVariable(Substitution):
    """The value of an environment variable of the processes to be started."""

    def __init__(self, name: SomeSubstitutions, *, default_value: SomeSubstitutions | None = None) -> None:
        self.name = normalize(name)
        self._default = default_value

    def perform(self, context: LaunchContext) -> str:
        """Return the value, else the default; SubstitutionFailure if there is neither."""
        name = perform(context, self.name)
        if name in context.environment:
            return context.environment[name]
        if self._default is None:
            raise SubstitutionFailure(f"environment variable '{name}' does not exist: set it before launching")
        return perform(context, self._default)

    def describe(self) -> str:
        """Return the name."""
        return f"EnvVar({' + '.join(part.describe() for part in self.name)})"
