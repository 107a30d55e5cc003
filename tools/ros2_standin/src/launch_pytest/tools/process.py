"""Waiting for what a process does, in a test that runs beside its launch.

The functions return whether it came to pass within `timeout` [s]; they see events from their call on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from launch import EventHandler, LaunchContext
from launch.actions import ExecuteProcess
from launch.event_handlers import OnProcessExit, OnProcessIO


@contextlib.contextmanager
def _registered(context: LaunchContext, handler: EventHandler) -> Iterator[None]:
    context.register_event_handler(handler, append=True)
    try:
        yield
    finally:
        context.unregister_event_handler(handler)


def wait_for_output_sync(
    launch_context: LaunchContext,
    execute_process_action: ExecuteProcess,
    validate_output: Callable[[str], bool | None],
    timeout: float,
) -> bool:
    """Wait until `validate_output` returns true for all that a process with `cached_output=True` has written."""
    written, deadline = threading.Event(), time.monotonic() + timeout
    handler = OnProcessIO(target_action=execute_process_action, on_stdout=lambda _event: written.set())
    with _registered(launch_context, handler):
        while not validate_output(execute_process_action.get_stdout()):
            if not written.wait(max(0.0, deadline - time.monotonic())):
                return False
            written.clear()
    return True


def wait_for_exit_sync(launch_context: LaunchContext, execute_process_action: ExecuteProcess, timeout: float) -> bool:
    """Wait until the process ends."""
    ended = threading.Event()
    handler = OnProcessExit(target_action=execute_process_action, on_exit=lambda _event, _context: ended.set())
    with _registered(launch_context, handler):
        return ended.wait(timeout)
