"""How a launch ends with one of its programs."""

from __future__ import annotations

from launch import LaunchContext
from launch.actions import Shutdown
from launch.events.process import ProcessExited

from fcnet_controller.suite_node import OnExit


def end_after(executable: str, reason: str) -> OnExit:
    """End the launch with a program: well, for this reason, where it is `executable` with exit code 0; else badly."""

    def end(event: ProcessExited, context: LaunchContext) -> Shutdown | None:
        if context.is_shutdown:
            return None
        program = event.process_name
        if program.startswith(executable) and event.returncode == 0:
            return Shutdown(reason=reason)
        raise RuntimeError(f"{program} ended with exit code {event.returncode}; see its last lines above")

    return end
