"""The base of all actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .entity import Entity

if TYPE_CHECKING:
    from .conditions import Condition
    from .launch_context import LaunchContext


class Action(Entity):
    """Something to do, unless its condition is false."""

    def __init__(self, *, condition: Condition | None = None) -> None:
        self.condition = condition

    def visit(self, context: LaunchContext) -> list[Entity] | None:
        """Execute, if the condition holds."""
        if self.condition is None or self.condition.evaluate(context):
            return self.execute(context)
        return None

    def execute(self, context: LaunchContext) -> list[Entity] | None:
        """Do the work and return the entities to visit next."""
        raise NotImplementedError
