"""The pytest plugin: runs tests marked `@pytest.mark.launch(fixture=...)` beside the launch that the fixture describes.

As in upstream's plugin, a test function runs in a thread of its own while the launch goes on; with `shutdown=True` it
runs after the launch's end, and a generator runs beside the launch up to its `yield` and after its end from there on.
Upstream also takes coroutines and fixtures of a wider scope than a test: both are refused here.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity, LaunchService

from .actions import ReadyToTest


class TestedLaunch:
    """A launch service with an event loop of its own, in which it runs beside a test."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.service = LaunchService()
        self._task: asyncio.Task[int] | None = None
        self._auto_shutdown = True

    def start(self, description: LaunchDescription, shutdown_when_idle: bool, auto_shutdown: bool) -> None:
        """Launch `description`, and wait until it is ready for the test or has ended."""
        self._auto_shutdown = auto_shutdown
        ready = next((entity for entity in _all_entities(description) if isinstance(entity, ReadyToTest)), None)
        if ready is None:
            ready = ReadyToTest()
            description.entities.append(ready)
        self.service.include_launch_description(description)
        self._task = self.loop.create_task(self.service.run_async(shutdown_when_idle=shutdown_when_idle))
        visited = self.loop.create_task(ready.visited.wait())
        self.loop.run_until_complete(asyncio.wait((visited, self._task), return_when=asyncio.FIRST_COMPLETED))
        visited.cancel()

    def run_beside(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function in a thread of its own while the launch goes on."""
        self.loop.run_until_complete(self.loop.run_in_executor(None, function, *arguments))

    def finish(self) -> None:
        """End the launch, or wait for its end; a launch that failed fails the test."""
        if self._task is None:
            return
        if self._auto_shutdown and not self._task.done():
            self.service.shutdown()
        assert self.loop.run_until_complete(self._task) == 0, "the launch has failed: its error is in the output"

    def close(self) -> None:
        """Close the event loop."""
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


def fixture(
    decorated: Callable[..., Any] | None = None, *, shutdown_when_idle: bool = True, auto_shutdown: bool = True
) -> Any:
    """Make a function that returns a LaunchDescription a fixture of launch tests.

    The launch ends after the test that uses it, or by itself if not `auto_shutdown`.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        options = {"shutdown_when_idle": shutdown_when_idle, "auto_shutdown": auto_shutdown}
        function._launch_pytest_options = options  # type: ignore[attr-defined]
        return pytest.fixture(function)

    return decorate if decorated is None else decorate(decorated)


@pytest.fixture
def launch_service() -> Iterator[TestedLaunch]:
    """The launch of the test."""
    launched = TestedLaunch()
    yield launched
    launched.close()


@pytest.fixture
def launch_context(launch_service: TestedLaunch) -> LaunchContext:
    """The launch's context, for `launch_pytest.tools`."""
    return launch_service.service.context


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "launch(fixture, shutdown=False): run the test beside the launch of a fixture.")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> list[pytest.Item] | None:
    """Collect the tests with the mark, generators too, and let them use the fixture."""
    marks = [mark for mark in getattr(obj, "pytestmark", []) if mark.name == "launch"]
    if not marks or not inspect.isfunction(obj) or not collector.funcnamefilter(name):
        return None
    if "fixture" not in marks[0].kwargs:
        pytest.fail(f"{name}: pytest.mark.launch() takes the argument fixture", pytrace=False)
    if inspect.iscoroutinefunction(obj) or inspect.isasyncgenfunction(obj):
        pytest.fail(f"{name}: the stand-in runs no coroutines as launch tests", pytrace=False)
    pytest.mark.usefixtures(marks[0].kwargs["fixture"].__name__, "launch_service")(obj)
    return list(collector._genfunctions(name, obj))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    """Start the launch that a fixture describes."""
    options = getattr(fixturedef.func, "_launch_pytest_options", None)
    if options is None:
        return (yield)
    launched: TestedLaunch = request.getfixturevalue("launch_service")
    description: Any = yield
    if not isinstance(description, LaunchDescription):
        pytest.fail(f"launch fixture '{fixturedef.argname}' returns no LaunchDescription", pytrace=False)
    fixturedef.addfinalizer(launched.finish)
    launched.start(description, **options)
    return description


def _all_entities(description: LaunchDescription) -> Iterator[LaunchDescriptionEntity]:
    waiting: list[LaunchDescriptionEntity] = [description]
    while waiting:
        entity = waiting.pop()
        yield entity
        waiting += entity.describe_sub_entities()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a launch test."""
    mark = pyfuncitem.get_closest_marker("launch")
    if mark is None:
        return None
    launched: Any = pyfuncitem.funcargs["launch_service"]
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    test = functools.partial(pyfuncitem.obj, **arguments)
    if inspect.isgeneratorfunction(pyfuncitem.obj):
        generator = test()
        launched.run_beside(next, generator, None)
        launched.finish()
        if next(generator, StopIteration) is not StopIteration:
            pytest.fail("a launch test that is a generator yields once", pytrace=False)
        return True
    if mark.kwargs.get("shutdown", False):
        launched.finish()
    launched.run_beside(test)
    return True
