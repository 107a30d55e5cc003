"""Texts that are known only while launching."""

from . import LaunchContext


class LaunchConfiguration:
    """The value of a launch argument."""

    def __init__(self, variable_name: str) -> None:
        self._name = variable_name

    def perform(self, context: LaunchContext) -> str:
        """Return the value; RuntimeError if there is none."""
        if self._name not in context.launch_configurations:
            raise RuntimeError(f"launch configuration '{self._name}' does not exist: declare it as an argument")
        return context.launch_configurations[self._name]
