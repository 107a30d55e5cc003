"""What launch/isaac_playback.launch.py starts: a recording as a robot, and the controller with its policy.

The launch ends with exit code 0 when the recording has been played or Ctrl-C was pressed, with another when the
controller went into fault or a program ended by itself.
"""

from __future__ import annotations

from launch import LaunchContext, LaunchDescription
from launch.actions import OpaqueFunction
from launch_ros.actions import Node

from fcnet_controller import monitor_launch
from fcnet_controller.launch_choices import (
    BOOLEANS,
    LOG_LEVELS,
    declared,
    given,
    refuse_other_than,
    refuse_other_than_positive,
)
from fcnet_controller.launch_end import end_after
from fcnet_controller.robot_launch import SIMULATION_TIMEOUT
from fcnet_controller.suite_node import suite_node

END = end_after("isaac_playback", "the recording has been played")

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
    **monitor_launch.ARGUMENTS,
    "namespace": ("", "namespace of all nodes"),
    "log_level": ("info", f"verbosity of the nodes: {', '.join(LOG_LEVELS)}"),
}


def describe_playback() -> LaunchDescription:
    """The launch description."""
    return LaunchDescription([*declared(ARGUMENTS), OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[Node]:
    chosen = given(context, ARGUMENTS, "isaac_playback.launch.py")
    _refuse_unsuitable(chosen)
    return [_playback(chosen), _controller(chosen), *monitor_launch.monitor(chosen["robot"], chosen)]


def _refuse_unsuitable(chosen: dict[str, str]) -> None:
    if bool(chosen["recording"]) == bool(chosen["live"]):
        raise ValueError("give either a recording (recording:=FILE) or the address of a live one (live:=HOST:PORT)")
    for name in ("loop", "publish_commands"):
        refuse_other_than(BOOLEANS, name, chosen)
    refuse_other_than(LOG_LEVELS, "log_level", chosen)
    for name in ("rate", "control_rate"):
        refuse_other_than_positive(name, chosen)
    monitor_launch.refuse_impossible_monitor(chosen)


def _playback(chosen: dict[str, str]) -> Node:
    parameters = {name: chosen[name] for name in ("recording", "mapping", "live", "robot", "summary")} | {
        "rate": float(chosen["rate"]),
        "control_rate": float(chosen["control_rate"]),
        "loop": chosen["loop"] == "true",
        "publish_commands": chosen["publish_commands"] == "true",
    }
    return suite_node("sim_bridge", "isaac_playback", parameters, chosen, END)


def _controller(chosen: dict[str, str]) -> Node:
    parameters = {
        "robot": chosen["robot"],
        "policy": chosen["policy"],
        "control_rate": float(chosen["control_rate"]),
        "real_time_factor": float(chosen["rate"]),
        "auto_start": True,
        "follows_targets": False,
        "state_timeout": SIMULATION_TIMEOUT,
    }
    return suite_node("fcnet_controller", "controller", parameters, chosen, END)
