"""A node of the suite as every launch file starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from launch import Action, LaunchContext
from launch.events.process import ProcessExited
from launch_ros.actions import Node

OnExit = Callable[[ProcessExited, LaunchContext], Action | None]


def suite_node(
    package: str,
    executable: str,
    parameters: Mapping[str, Any],
    chosen: Mapping[str, str],
    on_exit: OnExit,
    remappings: Mapping[str, str] | None = None,
) -> Node:
    """chosen: the launch's arguments, of which namespace, log_level and, where there is one, params_file count."""
    file = chosen.get("params_file", "")
    return Node(
        package=package,
        executable=executable,
        namespace=chosen["namespace"],
        parameters=[parameters, file] if file else [parameters],
        remappings=list((remappings or {}).items()),
        arguments=["--ros-args", "--log-level", chosen["log_level"]],
        output="screen",
        on_exit=on_exit,
    )
