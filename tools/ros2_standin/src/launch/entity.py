"""What a launch description is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .launch_context import LaunchContext


class Entity:
    """Anything that a launch description may hold."""

    def visit(self, context: LaunchContext) -> list[Entity] | None:
        """Do this entity's work and return the entities to visit next."""
        raise NotImplementedError

    def sub_entities(self) -> list[Entity]:
        """Return the entities known before launching, for finding the declared arguments."""
        return []
