"""The base of all event handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Union

from ..entity import Entity
from ..events import Event

if TYPE_CHECKING:
    from ..launch_context import LaunchContext

SomeEntities = Union[Entity, Iterable[Entity], None]
Reaction = Union[SomeEntities, Callable[[Any, "LaunchContext"], SomeEntities]]


class EventHandler:
    """Gives entities to visit when an event matches: a list of them, or a function of event and context."""

    def __init__(self, *, matcher: Callable[[Event], bool], reaction: Reaction) -> None:
        self._matcher = matcher
        self._reaction = reaction

    def matches(self, event: Event) -> bool:
        """Tell whether this handler is for `event`."""
        return self._matcher(event)

    def handle(self, event: Event, context: LaunchContext) -> list[Entity]:
        """Return the entities to visit because of `event`."""
        found = self._reaction(event, context) if callable(self._reaction) else self._reaction
        if found is None:
            return []
        return [found] if isinstance(found, Entity) else list(found)
