"""Another launch file inside this one."""

from __future__ import annotations

from collections.abc import Iterable

from ..action import Action
from ..conditions import Condition
from ..entity import Entity
from ..launch_context import LaunchContext
from ..launch_description_sources import PythonLaunchDescriptionSource
from ..substitution import SomeSubstitutions, SubstitutionFailure, perform


class IncludeLaunchDescription(Action):
    """Visits another launch file with the given arguments, which that file must have declared."""

    def __init__(
        self,
        launch_description_source: PythonLaunchDescriptionSource,
        *,
        launch_arguments: Iterable[tuple[SomeSubstitutions, SomeSubstitutions]] | None = None,
        condition: Condition | None = None,
    ) -> None:
        super().__init__(condition=condition)
        if not isinstance(launch_description_source, PythonLaunchDescriptionSource):
            raise TypeError("IncludeLaunchDescription takes a PythonLaunchDescriptionSource and no other source")
        self._source = launch_description_source
        self._arguments = [] if launch_arguments is None else list(launch_arguments)

    def sub_entities(self) -> list[Entity]:
        """Return the included description, unless finding it needs values that only launching knows."""
        try:
            return [self._source.get_launch_description(LaunchContext())]
        except SubstitutionFailure:
            return []

    def execute(self, context: LaunchContext) -> list[Entity]:
        """Set the arguments and return the description; RuntimeError for an argument that it does not declare."""
        path = self._source.path(context)
        description = self._source.get_launch_description(context)
        declared = [argument.name for argument in description.get_launch_arguments()]
        for name, value in self._arguments:
            text = perform(context, name)
            if text not in declared:
                known = ", ".join(declared) or "none"
                raise RuntimeError(f"launch argument '{text}' is not declared by {path.name}, which takes: {known}")
            context.launch_configurations[text] = perform(context, value)
        context.current_launch_file = path
        return [description]
