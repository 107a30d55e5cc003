"""A Python function as an action."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..action import Action
from ..conditions import Condition
from ..entity import Entity
from ..launch_context import LaunchContext


class OpaqueFunction(Action):
    """Calls function(context, *args, **kwargs) and visits the entities that it returns."""

    def __init__(
        self,
        *,
        function: Callable[..., Sequence[Entity] | None],
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        condition: Condition | None = None,
    ) -> None:
        super().__init__(condition=condition)
        self._function = function
        self._args = [] if args is None else list(args)
        self._kwargs = kwargs or {}

    def execute(self, context: LaunchContext) -> list[Entity]:
        """Call the function."""
        return list(self._function(context, *self._args, **self._kwargs) or [])
