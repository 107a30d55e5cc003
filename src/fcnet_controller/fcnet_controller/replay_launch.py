"""What launch/replay.launch.py starts: a bag and the policy over it; nothing moves.

The launch ends with exit code 0 when the bag has been replayed or Ctrl-C was pressed, with another when the recorded
policy did not say the same again, or when the bag cannot be replayed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

BOOLEANS = ("true", "false")

# Name: default, description.
ARGUMENTS = {
    "bag": ("", "the recorded bag: its folder, or one file"),
    "rate": ("1.0", "recorded seconds per second"),
    "policy": ("", "model file; empty for the recorded one"),
    "robot": ("", "robot of the recording; empty where the bag says it"),
    "namespace": ("", "namespace of the robot in the bag; empty for the only one"),
    "loop": ("false", "true begins again at the end"),
    "summary": ("", "JSON file to write the result to"),
    "log_level": ("info", "verbosity of the node"),
}


def describe_replay() -> LaunchDescription:
    """The launch description."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[Node]:
    chosen = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    _refuse_unknown(context)
    _refuse_unsuitable(chosen)
    parameters: dict[str, Any] = {name: chosen[name] for name in ("policy", "robot", "namespace", "summary")}
    parameters |= {"bag": chosen["bag"], "rate": float(chosen["rate"]), "loop": chosen["loop"] == "true"}
    return [
        Node(
            package="fcnet_controller",
            executable="replay",
            parameters=[parameters, {"use_sim_time": True}],
            arguments=["--ros-args", "--log-level", chosen["log_level"]],
            output="screen",
            on_exit=_end,
        )
    ]


def _refuse_unknown(context: LaunchContext) -> None:
    """Upstream's `ros2 launch` takes any argument; a misspelt one shall not pass unnoticed."""
    if not any(argument.endswith("replay.launch.py") for argument in sys.argv):
        return
    given = {argument.split(":=")[0] for argument in sys.argv if ":=" in argument}
    if unknown := sorted((given & set(context.launch_configurations)) - set(ARGUMENTS)):
        raise ValueError(f"unknown launch argument {', '.join(unknown)}; known are {', '.join(ARGUMENTS)}")


def _refuse_unsuitable(chosen: dict[str, str]) -> None:
    if not chosen["bag"] or not Path(chosen["bag"]).exists():
        raise ValueError(f"launch argument bag:={chosen['bag']} names no recording; give the folder of one")
    if chosen["loop"] not in BOOLEANS:
        raise ValueError(f"launch argument loop:={chosen['loop']} is not known; choose {' or '.join(BOOLEANS)}")
    if not _is_positive_number(chosen["rate"]):
        raise ValueError(f"launch argument rate:={chosen['rate']} must be a positive number")


def _is_positive_number(text: str) -> bool:
    try:
        return 0.0 < float(text) < float("inf")
    except ValueError:
        return False


def _end(event: ProcessExited, context: LaunchContext) -> Shutdown | None:
    if context.is_shutdown:
        return None
    if event.returncode == 0:
        return Shutdown(reason="the bag has been replayed")
    raise RuntimeError(f"the replay ended with exit code {event.returncode}; see its last lines above")
