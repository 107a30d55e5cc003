"""What replay.launch.py and isaac_playback.launch.py start.

replay.launch.py: a bag and the policy over it; nothing moves. The launch ends with exit code 0 when the bag has been
replayed or Ctrl-C was pressed, with another when the recorded policy did not answer the same again, or when the bag
cannot be replayed.

isaac_playback.launch.py: a recording in place of a robot, and the controller with its policy. The launch ends with exit
code 0 when the recording has been played or Ctrl-C was pressed, with another when the controller went into fault or a
program ended by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch_ros.actions import Node

from fcnet_controller.descriptions.arguments import (
    BOOLEANS,
    LOG_LEVEL,
    MONITOR,
    NAMESPACE,
    Argument,
    Chosen,
    chosen_arguments,
    describe,
    end_after,
    monitor,
    positive,
    suite_node,
)
from fcnet_controller.descriptions.robot import SIMULATION_TIMEOUT

REPLAY_END = end_after("replay", "the bag has been replayed")
PLAYBACK_END = end_after("isaac_playback", "the recording has been played")
RATE = Argument("rate", "1.0", "recorded seconds per second", check=positive)
LOOP = Argument("loop", "false", "true begins again at the end", BOOLEANS)

REPLAY_ARGUMENTS = (
    Argument("bag", "", "the recorded bag: its folder, or one file"),
    RATE,
    Argument("policy", "", "model file; empty for the recorded one"),
    Argument("robot", "", "robot of the recording; empty where the bag says it"),
    Argument("namespace", "", "namespace of the robot in the bag; empty for the only one"),
    LOOP,
    Argument("summary", "", "JSON file to write the result to"),
    *MONITOR,
    LOG_LEVEL,
)
PLAYBACK_ARGUMENTS = (
    Argument("recording", "", "file to play: .rollout, .npz, .pt, .h5 (docs/isaac_gym.md)"),
    Argument("mapping", "", "YAML file that says what the recording's arrays are called"),
    Argument("live", "", "host:port at which a running simulation's states are received, such as 127.0.0.1:9870"),
    Argument("robot", "aliengo", "robot of the recording and of the policy"),
    Argument("policy", "", "model file; empty for the one shipped for this robot"),
    Argument("control_rate", "50.0", "control cycles per second [Hz]; a recording of it stays in step", (), positive),
    RATE,
    LOOP,
    Argument("publish_commands", "true", "false leaves cmd_vel and cmd_pose to you", BOOLEANS),
    Argument("summary", "", "JSON file to write the comparison to"),
    *MONITOR,
    NAMESPACE,
    LOG_LEVEL,
)


def describe_replay() -> LaunchDescription:
    """The launch description of replay.launch.py."""
    return describe(REPLAY_ARGUMENTS, _start_replay)


def _start_replay(context: LaunchContext) -> list[Node]:
    """The replay finds its namespace itself: that of the robot in the bag."""
    chosen = chosen_arguments(context, REPLAY_ARGUMENTS, "replay.launch.py")
    if not chosen["bag"] or not Path(chosen["bag"]).exists():
        raise ValueError(f"launch argument bag:={chosen['bag']} names no recording; give the folder of one")
    parameters: dict[str, Any] = {name: chosen[name] for name in ("policy", "robot", "namespace", "summary", "bag")}
    parameters |= {"rate": float(chosen["rate"]), "loop": chosen["loop"] == "true", "use_sim_time": True}
    replay = suite_node("fcnet_controller", "replay", parameters, chosen | {"namespace": ""}, REPLAY_END)
    return [replay] if chosen["monitor"] == "false" else [replay, *_monitor_of_replay(chosen)]


def _monitor_of_replay(chosen: Chosen) -> list[Node]:
    """A page on which the recorded targets and commands are seen."""
    from fcnet_controller.replay.bag import STEPS, played_name  # these imports would keep other launches waiting
    from fcnet_core.remote import load_remote_map
    from fcnet_replay.bags.bag import open_bag

    notes = open_bag(chosen["bag"]).notes
    robot, namespace = chosen["robot"] or notes.robot, chosen["namespace"].strip("/") or notes.namespace
    if not robot:
        raise ValueError(f"the bag {chosen['bag']} does not say which robot it is of; add robot:=aliengo, for example")
    commands = [topic for source in load_remote_map().sources for topic in (source.velocity, source.pose)]
    topics = {topic: played_name(topic) for topic in ("joint_trajectory", STEPS, *commands)}
    return monitor(robot, {**chosen, "namespace": namespace}, recorded=topics)


def describe_playback() -> LaunchDescription:
    """The launch description of isaac_playback.launch.py."""
    return describe(PLAYBACK_ARGUMENTS, _start_playback)


def _start_playback(context: LaunchContext) -> list[Node]:
    chosen = chosen_arguments(context, PLAYBACK_ARGUMENTS, "isaac_playback.launch.py")
    if bool(chosen["recording"]) == bool(chosen["live"]):
        raise ValueError("give either a recording (recording:=FILE) or the address of a live one (live:=HOST:PORT)")
    rate, control_rate = float(chosen["rate"]), float(chosen["control_rate"])
    playback = {name: chosen[name] for name in ("recording", "mapping", "live", "robot", "summary")} | {
        "rate": rate,
        "control_rate": control_rate,
        "loop": chosen["loop"] == "true",
        "publish_commands": chosen["publish_commands"] == "true",
    }
    controller = {
        "robot": chosen["robot"],
        "policy": chosen["policy"],
        "control_rate": control_rate,
        "real_time_factor": rate,
        "auto_start": True,
        "follows_targets": False,
        "state_timeout": SIMULATION_TIMEOUT,
    }
    return [
        suite_node("sim_bridge", "isaac_playback", playback, chosen, PLAYBACK_END),
        suite_node("fcnet_controller", "controller", controller, chosen, PLAYBACK_END),
        *monitor(chosen["robot"], chosen),
    ]
