"""Waiting for what a process does, in a test that runs beside its launch.

`validate_output` gets all that the process, which needs `cached_output=True`, has written so far. The `wait_for`
functions return whether it came to pass within `timeout` [s]; they see events from their call on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from launch.actions import ExecuteProcess
from launch.core import EventHandler, LaunchContext
from launch.event_handlers import OnProcessExit, OnProcessIO, OnProcessStart

Validate = Callable[[str], bool | None]


@contextlib.contextmanager
def _registered(context: LaunchContext, handler: EventHandler) -> Iterator[None]:
    context.register_event_handler(handler, append=True)
    try:
        yield
    finally:
        context.unregister_event_handler(handler)


def wait_for_output_sync(
    launch_context: LaunchContext, execute_process_action: ExecuteProcess, validate_output: Validate, timeout: float
) -> bool:
    """Wait until `validate_output` returns true for the output."""
    written, deadline = threading.Event(), time.monotonic() + timeout
    handler = OnProcessIO(target_action=execute_process_action, on_stdout=lambda _event: written.set())
    with _registered(launch_context, handler):
        while not validate_output(execute_process_action.get_stdout()):
            if not written.wait(max(0.0, deadline - time.monotonic())):
                return False
            written.clear()
    return True


def assert_output_sync(
    launch_context: LaunchContext, execute_process_action: ExecuteProcess, validate_output: Validate, timeout: float
) -> None:
    """Wait until `validate_output` raises no AssertionError for the output; raise its last."""

    def holds(output: str) -> bool:
        try:
            validate_output(output)
        except AssertionError:
            return False
        return True

    if not wait_for_output_sync(launch_context, execute_process_action, holds, timeout):
        validate_output(execute_process_action.get_stdout())


def wait_for_start_sync(launch_context: LaunchContext, execute_process_action: ExecuteProcess, timeout: float) -> bool:
    """Wait until the process starts."""
    started = threading.Event()
    handler = OnProcessStart(target_action=execute_process_action, on_start=lambda _event, _context: started.set())
    with _registered(launch_context, handler):
        return started.wait(timeout)


def wait_for_exit_sync(launch_context: LaunchContext, execute_process_action: ExecuteProcess, timeout: float) -> bool:
    """Wait until the process ends."""
    ended = threading.Event()
    handler = OnProcessExit(target_action=execute_process_action, on_exit=lambda _event, _context: ended.set())
    with _registered(launch_context, handler):
        return ended.wait(timeout)
