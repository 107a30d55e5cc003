"""What launching knows while it runs."""

from __future__ import annotations

import asyncio
import copy
import os
import tempfile
from collections import deque
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .substitution import Substitution

if TYPE_CHECKING:
    from .event_handlers import EventHandler
    from .events import Event


class LaunchContext:
    """Configurations, environment, event handlers and running tasks of one launch.

    `argv` holds the command line's `name:=value` texts, so that a launch file can look at all of them.
    """

    def __init__(self, *, argv: Iterable[str] | None = None) -> None:
        self.argv = list(argv or [])
        self.launch_configurations: dict[str, Any] = {}
        self.environment: dict[str, str] = dict(os.environ)
        self.is_shutdown = False
        self.current_launch_file: Path | None = None
        self.events: deque[Event] = deque()
        self.handlers: list[EventHandler] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.changed = asyncio.Event()
        self._scopes: list[tuple[dict[str, Any], dict[str, str]]] = []
        self._files: tempfile.TemporaryDirectory[str] | None = None

    def perform_substitution(self, substitution: Substitution) -> str:
        """Return the text of one substitution."""
        return substitution.perform(self)

    def emit_event(self, event: Event) -> None:
        """Queue an event for the handlers."""
        self.events.append(event)
        self.changed.set()

    def register_event_handler(self, handler: EventHandler) -> None:
        """Let `handler` see events from now on, before the handlers registered earlier, as upstream does."""
        self.handlers.insert(0, handler)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` beside the event loop; launching ends only after it."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(lambda _: self.changed.set())

    def push_scope(self) -> None:
        """Remember configurations and environment for `pop_scope`."""
        self._scopes.append((copy.deepcopy(self.launch_configurations), dict(self.environment)))

    def pop_scope(self) -> None:
        """Forget what was set since `push_scope`."""
        self.launch_configurations, self.environment = self._scopes.pop()

    def write_temporary_file(self, text: str) -> Path:
        """Write a file that is removed when launching ends."""
        if self._files is None:
            self._files = tempfile.TemporaryDirectory(prefix="launch_params_")
        path = Path(self._files.name) / f"{len(list(Path(self._files.name).iterdir()))}.yaml"
        path.write_text(text)
        return path

    def close(self) -> None:
        """Remove the temporary files."""
        if self._files is not None:
            self._files.cleanup()
