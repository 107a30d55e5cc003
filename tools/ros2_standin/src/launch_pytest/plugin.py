"""The pytest plugin: runs tests marked `@pytest.mark.launch(fixture=...)` beside the launch that the fixture describes.

As in upstream's plugin, a test function runs in a thread of its own while the launch goes on; with `shutdown=True` it
runs after the launch's end, and a generator runs beside the launch up to its `yield` and after its end from there on.
Upstream also takes coroutines, and generators whose fixture is wider than a test: they are refused here.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from launch.core import LaunchDescription, LaunchDescriptionEntity

from .actions import ReadyToTest
from .fixture import launch_fixtures

globals().update(launch_fixtures("function"))


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests for after a launch behind those beside it."""
    groups: dict[Any, list[int]] = {}
    for place, item in enumerate(items):
        if (mark := item.get_closest_marker("launch")) is not None:
            groups.setdefault(mark.kwargs["fixture"], []).append(place)
    for places in groups.values():
        ordered = sorted((items[place] for place in places), key=_is_after_launch)
        for place, item in zip(places, ordered, strict=True):
            items[place] = item


def _is_after_launch(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("launch")
    return mark is not None and bool(mark.kwargs.get("shutdown", False))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Start the launch that a fixture describes, and wait until it is ready for the tests."""
    options = getattr(fixturedef.func, "_launch_pytest_options", None)
    if options is None:
        return (yield)
    launched: Any = request.getfixturevalue("launch_service")
    found: Any = yield
    description = found[0] if isinstance(found, Sequence) and found else found
    if not isinstance(description, LaunchDescription):
        pytest.fail(f"launch fixture '{fixturedef.argname}' returns no LaunchDescription", pytrace=False)
    ready = [entity for entity in _all_entities(description) if isinstance(entity, ReadyToTest)] or [ReadyToTest()]
    if ready[0] not in _all_entities(description):
        description.entities.append(ready[0])
    launched.service.include_launch_description(description)
    running = launched.service.run_async(shutdown_when_idle=options["shutdown_when_idle"])
    launched.task = launched.loop.create_task(running)
    fixturedef.addfinalizer(functools.partial(launched.finish, options["auto_shutdown"]))
    launched.loop.run_until_complete(_either(ready[0].visited, launched.task))
    return found


def _all_entities(description: LaunchDescription) -> list[LaunchDescriptionEntity]:
    found: list[LaunchDescriptionEntity] = []
    waiting: list[LaunchDescriptionEntity] = [description]
    while waiting:
        found.append(waiting.pop())
        waiting += found[-1].describe_sub_entities()
    return found


async def _either(event: asyncio.Event, task: asyncio.Task[int]) -> None:
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait((waiting, task), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a launch test."""
    mark = pyfuncitem.get_closest_marker("launch")
    if mark is None:
        return None
    launched: Any = pyfuncitem.funcargs["launch_service"]
    options = mark.kwargs["fixture"]._launch_pytest_options
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    test = functools.partial(pyfuncitem.obj, **arguments)
    if _is_after_launch(pyfuncitem):
        launched.finish(options["auto_shutdown"])
        launched.loop.run_until_complete(launched.loop.run_in_executor(None, test))
    elif inspect.isgeneratorfunction(pyfuncitem.obj):
        generator = test()
        launched.loop.run_until_complete(launched.loop.run_in_executor(None, next, generator, None))
        launched.finish(options["auto_shutdown"])
        if next(generator, StopIteration) is not StopIteration:
            pytest.fail("a launch test that is a generator yields once", pytrace=False)
    else:
        launched.loop.run_until_complete(launched.loop.run_in_executor(None, test))
    return True
