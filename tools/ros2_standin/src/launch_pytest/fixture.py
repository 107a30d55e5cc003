"""The fixtures of launch tests."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from launch import LaunchContext, LaunchService


class TestedLaunch:
    """A launch service with an event loop of its own, in which it runs beside the tests."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.service = LaunchService()
        self.task: asyncio.Task[int] | None = None

    def finish(self, auto_shutdown: bool = True) -> None:
        """End the launch, or wait for its end; a launch that failed fails the test."""
        if self.task is None:
            return
        if auto_shutdown and not self.task.done():
            self.service.shutdown()
        assert self.loop.run_until_complete(self.task) == 0, "the launch has failed: its error is in the output"


def launch_fixtures(scope: Any) -> dict[str, Any]:
    """Return the fixtures `launch_service` and `launch_context` with this scope."""

    @pytest.fixture(scope=scope)
    def launch_service() -> Iterator[TestedLaunch]:
        """The launch of the test."""
        launched = TestedLaunch()
        yield launched
        launched.loop.run_until_complete(launched.loop.shutdown_default_executor())
        launched.loop.close()

    @pytest.fixture(scope=scope)
    def launch_context(launch_service: TestedLaunch) -> LaunchContext:
        """The launch's context, for `launch_pytest.tools`."""
        return launch_service.service.context

    return {"launch_service": launch_service, "launch_context": launch_context}


def fixture(
    decorated: Callable[..., Any] | None = None,
    *,
    shutdown_when_idle: bool = True,
    auto_shutdown: bool = True,
    scope: Any = "function",
) -> Any:
    """Make a function that returns a LaunchDescription, or a sequence that begins with one, a fixture of launch tests.

    The launch ends after the tests that use it, or by itself if not `auto_shutdown`.
    """
    if scope != "function":
        caller = inspect.stack()[1].frame.f_globals
        for name, found in launch_fixtures(scope).items():
            caller.setdefault(name, found)

    def decorate(function: Callable[..., Any]) -> Any:
        options = {"shutdown_when_idle": shutdown_when_idle, "auto_shutdown": auto_shutdown}
        function._launch_pytest_options = options  # type: ignore[attr-defined]
        return pytest.fixture(scope=scope)(function)

    return decorate if decorated is None else decorate(decorated)
