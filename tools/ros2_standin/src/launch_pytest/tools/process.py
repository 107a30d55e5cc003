"""Waiting for what a process does, in a test that runs beside its launch."""

from __future__ import annotations

import threading

from launch import LaunchContext
from launch.actions import ExecuteProcess
from launch.event_handlers import OnProcessExit


def wait_for_exit_sync(launch_context: LaunchContext, execute_process_action: ExecuteProcess, timeout: float) -> bool:
    """Return whether the process ends between this call and `timeout` [s] later."""
    ended = threading.Event()
    handler = OnProcessExit(target_action=execute_process_action, on_exit=lambda _event, _context: ended.set())
    launch_context.register_event_handler(handler, append=True)
    try:
        return ended.wait(timeout)
    finally:
        launch_context.unregister_event_handler(handler)
