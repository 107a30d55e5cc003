"""What the launch files share: a robot (simulated), its controller and, where asked for, the demo.

Nothing goes on without any one of them: the launch ends with exit code 0 when the demo has passed or Ctrl-C was
pressed, with another when a program ended by itself or the demo failed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

BACKENDS = ("mujoco",)
COMMANDS = ("none", "demo")
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")
BOOLEANS = ("true", "false")

# Name: default, description. Empty means: leave it to the node.
ARGUMENTS = {
    "backend": ("mujoco", "what moves the joints: mujoco (a simulated robot)"),
    "policy": ("", "model file; empty for the one shipped for this robot"),
    "command": ("none", "who commands the robot: none (publish cmd_vel yourself) or demo (a scripted course)"),
    "demo": ("false", "true is short for command:=demo"),
    "terrain": ("flat", "ground of the simulation, a name from quadruped_sim/terrain.py"),
    "real_time_factor": ("1.0", "simulated seconds per second"),
    "control_rate": ("", "control cycles per second [Hz]; empty for the controller's default"),
    "namespace": ("", "namespace of all nodes"),
    "params_file": ("", "YAML file with parameters of the nodes, which win over this launch file's"),
    "log_level": ("info", f"verbosity of the nodes: {', '.join(LOG_LEVELS)}"),
    "viewer": ("false", "true opens MuJoCo's window; needs a display"),
}


def describe_robot(robot: str) -> LaunchDescription:
    """The launch description of the robot called `robot`."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=_start, args=[robot])])


def _start(context: LaunchContext, robot: str) -> list[Node]:
    chosen = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    _refuse_unknown(context, robot)
    _refuse_unsuitable(chosen)
    nodes = [_bridge(robot, chosen), _controller(robot, chosen)]
    return [*nodes, _demo(chosen)] if _has_demo(chosen) else nodes


def _refuse_unknown(context: LaunchContext, robot: str) -> None:
    """Upstream's `ros2 launch` takes any argument; a misspelt one shall not pass unnoticed.

    Arguments of a launch file that includes this one are that file's business.
    """
    if not any(argument.endswith(f"{robot}.launch.py") for argument in sys.argv):
        return
    given = {argument.split(":=")[0] for argument in sys.argv if ":=" in argument}
    if unknown := sorted((given & set(context.launch_configurations)) - set(ARGUMENTS)):
        raise ValueError(f"unknown launch argument {', '.join(unknown)}; known are {', '.join(ARGUMENTS)}")


def _refuse_unsuitable(chosen: dict[str, str]) -> None:
    choices = {
        "backend": BACKENDS,
        "command": COMMANDS,
        "demo": BOOLEANS,
        "viewer": BOOLEANS,
        "log_level": LOG_LEVELS,
    }
    for name, known in choices.items():
        if chosen[name] not in known:
            raise ValueError(f"launch argument {name}:={chosen[name]} is not known; choose {' or '.join(known)}")
    for name in ("real_time_factor", "control_rate"):
        if chosen[name] and not _is_positive_number(chosen[name]):
            raise ValueError(f"launch argument {name}:={chosen[name]} must be a positive number")
    if chosen["params_file"] and not Path(chosen["params_file"]).is_file():
        raise ValueError(f"launch argument params_file:={chosen['params_file']} is not a file; give the path of one")


def _is_positive_number(text: str) -> bool:
    try:
        return 0.0 < float(text) < float("inf")
    except ValueError:
        return False


def _has_demo(chosen: dict[str, str]) -> bool:
    return chosen["demo"] == "true" or chosen["command"] == "demo"


def _bridge(robot: str, chosen: dict[str, str]) -> Node:
    parameters = {
        "robot": robot,
        "terrain": chosen["terrain"],
        "real_time_factor": float(chosen["real_time_factor"]),
        "viewer": chosen["viewer"] == "true",
    }
    return _node("sim_bridge", "mujoco_bridge", parameters, chosen)


def _controller(robot: str, chosen: dict[str, str]) -> Node:
    parameters: dict[str, Any] = {
        "robot": robot,
        "policy": chosen["policy"],
        "real_time_factor": float(chosen["real_time_factor"]),
        "auto_start": True,
    }
    if chosen["control_rate"]:
        parameters["control_rate"] = float(chosen["control_rate"])
    return _node("fcnet_controller", "controller", parameters, chosen)


def _demo(chosen: dict[str, str]) -> Node:
    terminal = os.ttyname(sys.stdout.fileno()) if sys.stdout.isatty() else ""
    parameters = {"status_terminal": terminal, "real_time_factor": float(chosen["real_time_factor"])}
    return _node("fcnet_controller", "demo_course", parameters, chosen)


def _node(package: str, executable: str, parameters: dict[str, Any], chosen: dict[str, str]) -> Node:
    return Node(
        package=package,
        executable=executable,
        namespace=chosen["namespace"],
        parameters=[parameters, chosen["params_file"]] if chosen["params_file"] else [parameters],
        arguments=["--ros-args", "--log-level", chosen["log_level"]],
        output="screen",
        on_exit=_end,
    )


def _end(event: ProcessExited, context: LaunchContext) -> Shutdown | None:
    if context.is_shutdown:
        return None
    program = event.process_name
    if program.startswith("demo_course") and event.returncode == 0:
        return Shutdown(reason="the demo has passed")
    raise RuntimeError(f"{program} ended with exit code {event.returncode}; see its last lines above")
