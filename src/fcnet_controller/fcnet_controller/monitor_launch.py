"""What `monitor:=true` adds to a launch: the robot in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launch import LaunchContext
from launch.actions import LogInfo
from launch.events.process import ProcessExited
from launch_ros.actions import Node

from fcnet_controller.launch_choices import BOOLEANS, refuse_other_than, refuse_other_than_port
from fcnet_controller.suite_node import suite_node

# Name: default, description.
ARGUMENTS = {
    "monitor": ("false", "true shows the robot in a browser, at http://127.0.0.1:8088 (docs/monitor.md)"),
    "monitor_port": ("", "monitor: TCP port of its page; empty for 8088, 0 for one that is free"),
}


def refuse_impossible_monitor(chosen: Mapping[str, str]) -> None:
    """Raise ValueError with a sentence where the arguments do not fit together."""
    refuse_other_than(BOOLEANS, "monitor", chosen)
    refuse_other_than_port("TCP", "monitor_port", chosen)
    if chosen["monitor_port"] and chosen["monitor"] == "false":
        raise ValueError(
            f"launch argument monitor_port:={chosen['monitor_port']} is for a monitor, and there is none; add "
            "monitor:=true"
        )


def monitor(
    robot: str, chosen: Mapping[str, str], bridge: str = "", recorded: Mapping[str, str] | None = None
) -> list[Node]:
    """The node, where one is wanted. bridge: of a real robot; recorded: what topics are called in a replay, which can
    only be watched.
    """
    if chosen["monitor"] == "false":
        return []
    parameters: dict[str, Any] = {"robot": robot, "bridge": bridge, "watch_only": recorded is not None}
    if chosen["monitor_port"]:
        parameters["port"] = int(chosen["monitor_port"])
    return [suite_node("fcnet_controller", "monitor", parameters, chosen, _tell, recorded)]


def _tell(event: ProcessExited, context: LaunchContext) -> LogInfo | None:
    """A robot shall not fall because a port is taken: the others go on."""
    if context.is_shutdown:
        return None
    return LogInfo(msg=f"the monitor has ended (exit code {event.returncode}); the others go on without it")
