"""What only launch tests do."""

from __future__ import annotations

import asyncio

from launch.core import Action, LaunchContext


class ReadyToTest(Action):
    """Lets the tests begin when it is visited."""

    def __init__(self) -> None:
        self.visited = asyncio.Event()

    def execute(self, context: LaunchContext) -> None:
        """Let the tests begin."""
        self.visited.set()
