"""Actions with a scope of their own."""

from __future__ import annotations

from collections.abc import Iterable

from ..action import Action
from ..conditions import Condition
from ..entity import Entity
from ..launch_context import LaunchContext
from .opaque_function import OpaqueFunction


class GroupAction(Action):
    """Actions whose configurations and environment, if `scoped`, end with the group."""

    def __init__(self, actions: Iterable[Entity], *, scoped: bool = True, condition: Condition | None = None) -> None:
        super().__init__(condition=condition)
        self._actions = list(actions)
        self._scoped = scoped

    def sub_entities(self) -> list[Entity]:
        """Return the actions."""
        return self._actions

    def execute(self, context: LaunchContext) -> list[Entity]:
        """Return the actions between the two ends of the scope."""
        if not self._scoped:
            return self._actions
        context.push_scope()
        return [*self._actions, OpaqueFunction(function=LaunchContext.pop_scope)]
