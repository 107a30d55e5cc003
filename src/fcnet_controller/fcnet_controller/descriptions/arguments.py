"""What the launch files share: arguments as data, the suite's nodes, how a launch ends, and the monitor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launch import Action, LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

BOOLEANS = ("true", "false")
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")

Chosen = Mapping[str, str]  # arguments by name
OnExit = Callable[[ProcessExited, LaunchContext], Action | None]


@dataclass(frozen=True)
class Argument:
    """A launch argument. What differs from the default must be one of `choices`, if there are any, and pass `check`,
    which returns what is wrong with it, or nothing. backends: those of a robot's launch file that know it; empty: all.
    """

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()
    check: Callable[[str], str] = lambda _text: ""
    backends: tuple[str, ...] = ()

    def is_default(self, text: str) -> bool:
        """Whether the text is the default, or the same number."""
        return text == self.default or number(text) == number(self.default)

    def refuse_wrong(self, text: str) -> None:
        """Raise ValueError with a sentence where the text cannot be its value."""
        if self.is_default(text):
            return
        if self.choices and text not in self.choices:
            raise ValueError(f"launch argument {self.name}:={text} is not known; choose {' or '.join(self.choices)}")
        if problem := self.check(text):
            raise ValueError(f"launch argument {self.name}:={text} {problem}")


def number(text: str) -> float:
    """The finite number that the text is, or NaN."""
    try:
        found = float(text)
    except ValueError:
        return float("nan")
    return found if abs(found) < float("inf") else float("nan")


def positive(text: str) -> str:
    """Check for a finite number above zero."""
    return "" if number(text) > 0.0 else "must be a positive number"


def up_to_one(text: str) -> str:
    """Check for a number from 0 to 1."""
    return "" if 0.0 <= number(text) <= 1.0 else "must be a number from 0 to 1"


def port_of(protocol: str) -> Callable[[str], str]:
    """Make a check for a port of UDP or TCP."""
    return lambda text: (
        "" if text.isdecimal() and int(text) < 65536 else f"is no {protocol} port; give a number up to 65535"
    )


NAMESPACE = Argument("namespace", "", "namespace of all nodes")
LOG_LEVEL = Argument("log_level", "info", f"verbosity of the nodes: {', '.join(LOG_LEVELS)}", LOG_LEVELS)
MONITOR = (
    Argument("monitor", "false", "true shows the robot at http://127.0.0.1:8088 (docs/monitor.md)", BOOLEANS),
    Argument("monitor_port", "", "monitor: TCP port; empty for 8088, 0 for one that is free", (), port_of("TCP")),
)


def describe(arguments: Sequence[Argument], start: Callable[..., list[Any]], *more: str) -> LaunchDescription:
    """The launch description with these arguments, which starts what `start(context, *more)` returns."""
    declared = [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=": ".join(filter(None, (", ".join(argument.backends), argument.description))),
        )
        for argument in arguments
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start, args=more)])


def chosen_arguments(context: LaunchContext, arguments: Sequence[Argument], launch_file: str) -> dict[str, str]:
    """The arguments as given to this launch file. Raises ValueError with a sentence for one that cannot be.

    Upstream's `ros2 launch` takes any argument; a misspelt one must not pass unnoticed. Arguments of a launch file
    that includes this one are that file's business.
    """
    names = [argument.name for argument in arguments]
    if any(argument.endswith(launch_file) for argument in sys.argv):
        written = {argument.split(":=")[0] for argument in sys.argv if ":=" in argument}
        if unknown := sorted((written & set(context.launch_configurations)) - set(names)):
            raise ValueError(f"unknown launch argument {', '.join(unknown)}; known are {', '.join(names)}")
    chosen = {name: LaunchConfiguration(name).perform(context) for name in names}
    for argument in arguments:
        argument.refuse_wrong(chosen[argument.name])
    if chosen["monitor_port"] and chosen["monitor"] == "false":
        raise ValueError(
            f"launch argument monitor_port:={chosen['monitor_port']} is for a monitor, and there is none; add "
            "monitor:=true"
        )
    return chosen


def suite_node(
    package: str,
    executable: str,
    parameters: Mapping[str, Any],
    chosen: Chosen,
    on_exit: OnExit,
    remappings: Mapping[str, str] | None = None,
) -> Node:
    """A node with these parameters; of the launch's arguments namespace, log_level and params_file count."""
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


def go_on_without(what: str, others: str) -> OnExit:
    """Only log that a program has ended which the robot does not need: it must not fall because a disk is full."""

    def report(event: ProcessExited, context: LaunchContext) -> LogInfo | None:
        if context.is_shutdown:
            return None
        return LogInfo(msg=f"{what} has ended (exit code {event.returncode}); {others} without it")

    return report


def monitor(robot: str, chosen: Chosen, bridge: str = "", recorded: Mapping[str, str] | None = None) -> list[Node]:
    """The monitor, where one is wanted. bridge: of a real robot; recorded: names of topics in a replay, which can only
    be watched.
    """
    if chosen["monitor"] == "false":
        return []
    parameters: dict[str, Any] = {"robot": robot, "bridge": bridge, "watch_only": recorded is not None}
    if chosen["monitor_port"]:
        parameters["port"] = int(chosen["monitor_port"])
    report = go_on_without("the monitor", "the others go on")
    return [suite_node("fcnet_teleop", "monitor", parameters, chosen, report, recorded)]
