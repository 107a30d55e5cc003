"""What all launch files have in common: their arguments, nodes and endings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from launch import Action, LaunchContext
from launch.actions import DeclareLaunchArgument, LogInfo, Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

# What the arguments of all launch files have in common: declared, read, and refused with a sentence where unknown.

BOOLEANS = ("true", "false")
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")

Arguments = Mapping[str, tuple[str, str]]  # name: default, description


def declared(arguments: Arguments) -> list[DeclareLaunchArgument]:
    """The arguments, for a launch description."""
    return [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in arguments.items()
    ]


def given(context: LaunchContext, arguments: Arguments, launch_file: str) -> dict[str, str]:
    """The arguments as given to this launch file. Raises ValueError for one that it does not know.

    Upstream's `ros2 launch` takes any argument; a misspelt one shall not pass unnoticed. Arguments of a launch file
    that includes this one are that file's business.
    """
    if any(argument.endswith(launch_file) for argument in sys.argv):
        written = {argument.split(":=")[0] for argument in sys.argv if ":=" in argument}
        if unknown := sorted((written & set(context.launch_configurations)) - set(arguments)):
            raise ValueError(f"unknown launch argument {', '.join(unknown)}; known are {', '.join(arguments)}")
    return {name: LaunchConfiguration(name).perform(context) for name in arguments}


def refuse_other_than(known: Iterable[str], name: str, chosen: Mapping[str, str]) -> None:
    """Raise ValueError where the argument `name` is none of the known words."""
    if chosen[name] not in known:
        raise ValueError(
            f"launch argument {name}:={chosen[name]} is not known; choose {' or '.join(filter(None, known))}"
        )


def refuse_other_than_positive(name: str, chosen: Mapping[str, str]) -> None:
    """Raise ValueError where the argument `name` is no finite number above zero."""
    if not number(chosen[name]) > 0.0:
        raise ValueError(f"launch argument {name}:={chosen[name]} must be a positive number")


def refuse_other_than_port(kind: str, name: str, chosen: Mapping[str, str]) -> None:
    """Raise ValueError where the argument `name` is neither empty nor a port of this kind, such as UDP."""
    if chosen[name] and not (chosen[name].isdecimal() and int(chosen[name]) < 65536):
        raise ValueError(f"launch argument {name}:={chosen[name]} is no {kind} port; give a number up to 65535")


def number(text: str) -> float:
    """The finite number that the text is, or NaN."""
    try:
        found = float(text)
    except ValueError:
        return float("nan")
    return found if abs(found) < float("inf") else float("nan")


# A node of the suite as every launch file starts it.

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


# How a launch ends with one of its programs.

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


# What `monitor:=true` adds to a launch: the robot in a browser.

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
    return [suite_node("fcnet_teleop", "monitor", parameters, chosen, _tell, recorded)]


def _tell(event: ProcessExited, context: LaunchContext) -> LogInfo | None:
    """A robot shall not fall because a port is taken: the others go on."""
    if context.is_shutdown:
        return None
    return LogInfo(msg=f"the monitor has ended (exit code {event.returncode}); the others go on without it")
