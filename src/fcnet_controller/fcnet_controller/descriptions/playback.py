"""What replay.launch.py and isaac_playback.launch.py start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import OpaqueFunction
from launch_ros.actions import Node

from fcnet_controller.descriptions import arguments as monitor_launch
from fcnet_controller.descriptions.arguments import (
    BOOLEANS,
    LOG_LEVELS,
    declared,
    end_after,
    given,
    refuse_other_than,
    refuse_other_than_positive,
    suite_node,
)
from fcnet_controller.descriptions.robot import SIMULATION_TIMEOUT

# What launch/replay.launch.py starts: a bag and the policy over it; nothing moves.
#
# The launch ends with exit code 0 when the bag has been replayed or Ctrl-C was pressed, with another when the
# recorded policy did not say the same again, or when the bag cannot be replayed.

END = end_after("replay", "the bag has been replayed")

# Name: default, description.
ARGUMENTS = {
    "bag": ("", "the recorded bag: its folder, or one file"),
    "rate": ("1.0", "recorded seconds per second"),
    "policy": ("", "model file; empty for the recorded one"),
    "robot": ("", "robot of the recording; empty where the bag says it"),
    "namespace": ("", "namespace of the robot in the bag; empty for the only one"),
    "loop": ("false", "true begins again at the end"),
    "summary": ("", "JSON file to write the result to"),
    **monitor_launch.ARGUMENTS,
    "log_level": ("info", f"verbosity of the nodes: {', '.join(LOG_LEVELS)}"),
}


def describe_replay() -> LaunchDescription:
    """The launch description."""
    return LaunchDescription([*declared(ARGUMENTS), OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[Node]:
    chosen = given(context, ARGUMENTS, "replay.launch.py")
    _refuse_unsuitable(chosen)
    return [_replay(chosen), *_monitor(chosen)]


def _replay(chosen: dict[str, str]) -> Node:
    """It finds its namespace itself: that of the robot in the bag."""
    parameters: dict[str, Any] = {name: chosen[name] for name in ("policy", "robot", "namespace", "summary", "bag")}
    parameters |= {"rate": float(chosen["rate"]), "loop": chosen["loop"] == "true", "use_sim_time": True}
    return suite_node("fcnet_controller", "replay", parameters, chosen | {"namespace": ""}, END)


def _monitor(chosen: dict[str, str]) -> list[Node]:
    """A page on which the recorded targets and commands are seen."""
    if chosen["monitor"] == "false":
        return []
    from fcnet_controller.replay.bag import STEPS  # these imports would keep other launches waiting
    from fcnet_controller.replay.player import TARGETS, recorded
    from fcnet_core.remote import load_remote_map
    from fcnet_replay.bags.bag import open_bag
    from fcnet_replay.recording_notes import read_notes

    notes = read_notes(open_bag(chosen["bag"]).custom)
    robot, namespace = chosen["robot"] or notes.robot, chosen["namespace"].strip("/") or notes.namespace
    if not robot:
        raise ValueError(f"the bag {chosen['bag']} does not say which robot it is of; add robot:=aliengo, for example")
    commands = [topic for source in load_remote_map().sources for topic in (source.velocity, source.pose)]
    topics = {topic: recorded(topic) for topic in (TARGETS, STEPS, *commands)}
    return monitor_launch.monitor(robot, chosen | {"namespace": namespace}, recorded=topics)


def _refuse_unsuitable(chosen: dict[str, str]) -> None:
    if not chosen["bag"] or not Path(chosen["bag"]).exists():
        raise ValueError(f"launch argument bag:={chosen['bag']} names no recording; give the folder of one")
    refuse_other_than(BOOLEANS, "loop", chosen)
    refuse_other_than(LOG_LEVELS, "log_level", chosen)
    refuse_other_than_positive("rate", chosen)
    monitor_launch.refuse_impossible_monitor(chosen)


# What launch/isaac_playback.launch.py starts: a recording as a robot, and the controller with its policy.
#
# The launch ends with exit code 0 when the recording has been played or Ctrl-C was pressed, with another when the
# controller went into fault or a program ended by itself.

PLAYBACK_END = end_after("isaac_playback", "the recording has been played")

# Name: default, description.
PLAYBACK_ARGUMENTS = {
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
    return LaunchDescription([*declared(PLAYBACK_ARGUMENTS), OpaqueFunction(function=_start_playback)])


def _start_playback(context: LaunchContext) -> list[Node]:
    chosen = given(context, PLAYBACK_ARGUMENTS, "isaac_playback.launch.py")
    _refuse_unsuitable_playback(chosen)
    return [_playback(chosen), _controller(chosen), *monitor_launch.monitor(chosen["robot"], chosen)]


def _refuse_unsuitable_playback(chosen: dict[str, str]) -> None:
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
    return suite_node("sim_bridge", "isaac_playback", parameters, chosen, PLAYBACK_END)


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
    return suite_node("fcnet_controller", "controller", parameters, chosen, PLAYBACK_END)
