"""What replay.launch.py and isaac_playback.launch.py start.

replay.launch.py: a bag and the policy over it; nothing moves. The launch ends with exit code 0 when the bag has been
replayed or Ctrl-C was pressed, with another when the recorded policy gave other targets than recorded, or when the bag
cannot be replayed.

isaac_playback.launch.py: a recording in place of a robot, and the controller with its policy. The launch ends with exit
code 0 when the recording has been played or Ctrl-C was pressed, with another when the controller went into fault or a
program ended by itself.
"""

from __future__ import annotations

from pathlib import Path

from launch import LaunchDescription
from launch_ros.actions import Node

from fcnet_controller.descriptions.arguments import (
    LOG_LEVEL,
    MONITOR,
    NAMESPACE,
    Argument,
    SuiteLaunch,
    check_file,
    check_output,
    describe,
    end_after,
    within,
)
from fcnet_controller.descriptions.robot import SIMULATION_TIMEOUT
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.names import JOINT_TRAJECTORY
from fcnet_core.robot import load_robot

REPLAY, PLAYBACK = ("replay",), ("isaac_playback",)
BOTH = ("isaac_playback", "controller")
RATE, REPEAT = "recorded seconds per second", "true begins again at the end"
CONTROL_RATE = "control cycles per second [Hz]; a recording of it stays in step"

REPLAY_ARGUMENTS = (
    Argument("bag", "", "the recorded bag: its folder, or one file", nodes=REPLAY),
    Argument("rate", "1.0", RATE, within("real_time_factor"), REPLAY),
    Argument("policy", "", "model file; empty for the recorded one", nodes=REPLAY, check=load_model),
    Argument("robot", "", "robot of the recording; empty for that in the bag", nodes=REPLAY, check=load_robot),
    Argument("namespace", "", "namespace of the robot in the bag; empty for the only one", nodes=REPLAY),
    Argument("loop", "false", REPEAT, bool, REPLAY),
    Argument("summary", "", "JSON file to write the result to", nodes=REPLAY, check=check_output),
    *MONITOR,
    LOG_LEVEL,
)
PLAYBACK_ARGUMENTS = (
    Argument(
        "recording", "", "file to play: .rollout, .npz, .pt, .h5 (docs/isaac_gym.md)", nodes=PLAYBACK, check=check_file
    ),
    Argument("mapping", "", "YAML file with the names of the recording's arrays", nodes=PLAYBACK, check=check_file),
    Argument("live", "", "host:port at which a running simulation's states are received", nodes=PLAYBACK),
    Argument("robot", "aliengo", "robot of the recording and of the policy", nodes=BOTH, check=load_robot),
    Argument(
        "policy", "", "model file; empty for the one shipped for this robot", nodes=("controller",), check=load_model
    ),
    Argument("control_rate", "50.0", CONTROL_RATE, within("control_rate"), BOTH),
    Argument("rate", "1.0", RATE, within("real_time_factor"), PLAYBACK),
    Argument("loop", "false", REPEAT, bool, PLAYBACK),
    Argument("publish_commands", "true", "false leaves cmd_vel and cmd_pose to you", bool, PLAYBACK),
    Argument("summary", "", "JSON file to write the comparison to", nodes=PLAYBACK, check=check_output),
    *MONITOR,
    NAMESPACE,
    LOG_LEVEL,
)


def describe_replay() -> LaunchDescription:
    """Return the launch description of replay.launch.py."""
    end = end_after("replay", "the bag has been replayed")
    return describe(REPLAY_ARGUMENTS, "replay.launch.py", end, _start_replay)


def _start_replay(launch: SuiteLaunch) -> list[Node]:
    """The replay finds its namespace itself: that of the robot in the bag."""
    if not launch["bag"] or not Path(launch["bag"]).exists():
        raise ValueError(f"launch argument bag:={launch['bag']} names no recording; give the folder of one")
    replay = launch.node("fcnet_controller", "replay", {"use_sim_time": True}, namespace="")
    return [replay, *_monitor_of_replay(launch)] if launch["monitor"] else [replay]


def _monitor_of_replay(launch: SuiteLaunch) -> list[Node]:
    """Return a page on which the recorded targets and commands are seen."""
    from fcnet_controller.replay.bag import (  # these imports would keep other launches waiting
        STEPS,
        namespace_in,
        played_name,
    )
    from fcnet_core.remote import load_remote_map
    from fcnet_replay.bags.bag import open_bag
    from fcnet_replay.recording_notes import robot_of

    bag = open_bag(launch["bag"])
    robot = robot_of(launch["bag"], bag.notes, launch["robot"])
    namespace = namespace_in(bag, launch["namespace"])
    commands = [topic for source in load_remote_map().sources for topic in (source.velocity, source.pose)]
    topics = {topic: played_name(topic) for topic in (JOINT_TRAJECTORY.name, STEPS, *commands)}
    return launch.monitor(launch["robot"] or robot.name, recorded=topics, namespace=namespace)


def describe_playback() -> LaunchDescription:
    """Return the launch description of isaac_playback.launch.py."""
    end = end_after("isaac_playback", "the recording has been played")
    return describe(PLAYBACK_ARGUMENTS, "isaac_playback.launch.py", end, _start_playback)


def _start_playback(launch: SuiteLaunch) -> list[Node]:
    if bool(launch["recording"]) == bool(launch["live"]):
        raise ValueError("give either a recording (recording:=FILE) or the address of a live one (live:=HOST:PORT)")
    if launch["policy"]:
        check_robot(load_model(launch["policy"]), load_robot(launch["robot"]))
    controller = {
        "real_time_factor": launch["rate"],
        "auto_start": True,
        "follows_targets": False,
        "state_timeout": SIMULATION_TIMEOUT,
    }
    return [
        launch.node("sim_bridge", "isaac_playback", {}),
        launch.node("fcnet_controller", "controller", controller),
        *launch.monitor(launch["robot"]),
    ]
