"""What launch/replay.launch.py starts: a bag and the policy over it; nothing moves.

The launch ends with exit code 0 when the bag has been replayed or Ctrl-C was pressed, with another when the recorded
policy did not say the same again, or when the bag cannot be replayed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from fcnet_controller.suite_node import suite_node

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
    from fcnet_controller.replay_bag import STEPS  # these imports would keep other launches waiting
    from fcnet_controller.replay_player import TARGETS, recorded
    from fcnet_core.bags.bag import open_bag
    from fcnet_core.remote_map import load_remote_map
    from fcnet_core.replay.recording_notes import read_notes

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
