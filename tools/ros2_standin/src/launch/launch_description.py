"""What a launch file returns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .entity import Entity

if TYPE_CHECKING:
    from .actions import DeclareLaunchArgument
    from .launch_context import LaunchContext


class LaunchDescription(Entity):
    """A list of entities, visited in order."""

    def __init__(self, initial_entities: Iterable[Entity] | None = None) -> None:
        self.entities = list(initial_entities or [])

    def add_action(self, action: Entity) -> None:
        """Append one entity."""
        self.entities.append(action)

    def visit(self, context: LaunchContext) -> list[Entity]:
        """Return the entities."""
        return self.entities

    def sub_entities(self) -> list[Entity]:
        """Return the entities."""
        return self.entities

    def get_launch_arguments(self) -> list[DeclareLaunchArgument]:
        """Return every argument declared here, in groups and in included files, once by name."""
        from .actions import DeclareLaunchArgument

        found: dict[str, DeclareLaunchArgument] = {}
        waiting: list[Entity] = list(self.entities)
        while waiting:
            entity = waiting.pop(0)
            if isinstance(entity, DeclareLaunchArgument):
                found.setdefault(entity.name, entity)
            waiting = entity.sub_entities() + waiting
        return list(found.values())
