"""What launch/isaac_playback.launch.py starts: a recording as a robot, and the controller with its policy.

The launch ends with exit code 0 when the recording has been played or Ctrl-C was pressed, with another when the
controller went into fault or a program ended by itself.
"""

from __future__ import annotations

import sys
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

BOOLEANS = ("true", "false")

# Name: default, description.
ARGUMENTS = {
    "recording": ("", "file to play: .rollout, .npz, .pt, .h5 (docs/isaac_gym.md)"),
    "mapping": ("", "YAML file that says what the recording's arrays are called"),
    "live": ("", "host:port at which a running simulation's states are received instead, such as 127.0.0.1:9870"),
    "robot": ("aliengo", "robot of the recording and of the policy"),
    "policy": ("", "model file; empty for the one shipped for this robot"),
    "control_rate": ("50.0", "control cycles per second [Hz]; a recording of that rate is kept in step with them"),
    "rate": ("1.0", "recorded seconds per second"),
    "loop": ("false", "true begins again at the end"),
    "publish_commands": ("true", "false leaves cmd_vel and cmd_pose to you"),
    "summary": ("", "JSON file to write the comparison to"),
    "namespace": ("", "namespace of all nodes"),
    "log_level": ("info", "verbosity of the nodes"),
}


def describe_playback() -> LaunchDescription:
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
    return [_playback(chosen), _controller(chosen)]


def _refuse_unknown(context: LaunchContext) -> None:
    """Upstream's `ros2 launch` takes any argument; a misspelt one shall not pass unnoticed."""
    if not any(argument.endswith("isaac_playback.launch.py") for argument in sys.argv):
        return
    given = {argument.split(":=")[0] for argument in sys.argv if ":=" in argument}
    if unknown := sorted((given & set(context.launch_configurations)) - set(ARGUMENTS)):
        raise ValueError(f"unknown launch argument {', '.join(unknown)}; known are {', '.join(ARGUMENTS)}")


def _refuse_unsuitable(chosen: dict[str, str]) -> None:
    if bool(chosen["recording"]) == bool(chosen["live"]):
        raise ValueError("give either a recording (recording:=FILE) or the address of a live one (live:=HOST:PORT)")
    for name in ("loop", "publish_commands"):
        if chosen[name] not in BOOLEANS:
            raise ValueError(f"launch argument {name}:={chosen[name]} is not known; choose {' or '.join(BOOLEANS)}")
    for name in ("rate", "control_rate"):
        if not _is_positive_number(chosen[name]):
            raise ValueError(f"launch argument {name}:={chosen[name]} must be a positive number")


def _is_positive_number(text: str) -> bool:
    try:
        return 0.0 < float(text) < float("inf")
    except ValueError:
        return False


def _playback(chosen: dict[str, str]) -> Node:
    parameters = {name: chosen[name] for name in ("recording", "mapping", "live", "robot", "summary")} | {
        "rate": float(chosen["rate"]),
        "control_rate": float(chosen["control_rate"]),
        "loop": chosen["loop"] == "true",
        "publish_commands": chosen["publish_commands"] == "true",
    }
    return _node("sim_bridge", "isaac_playback", parameters, chosen)


def _controller(chosen: dict[str, str]) -> Node:
    parameters = {
        "robot": chosen["robot"],
        "policy": chosen["policy"],
        "control_rate": float(chosen["control_rate"]),
        "real_time_factor": float(chosen["rate"]),
        "auto_start": True,
        "follows_targets": False,
    }
    return _node("fcnet_controller", "controller", parameters, chosen)


def _node(package: str, executable: str, parameters: dict[str, Any], chosen: dict[str, str]) -> Node:
    return Node(
        package=package,
        executable=executable,
        namespace=chosen["namespace"],
        parameters=[parameters],
        arguments=["--ros-args", "--log-level", chosen["log_level"]],
        output="screen",
        on_exit=_end,
    )


def _end(event: ProcessExited, context: LaunchContext) -> Shutdown | None:
    if context.is_shutdown:
        return None
    program = event.process_name
    if program.startswith("isaac_playback") and event.returncode == 0:
        return Shutdown(reason="the recording has been played")
    raise RuntimeError(f"{program} ended with exit code {event.returncode}; see its last lines above")
