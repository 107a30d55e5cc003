"""Descriptions of replay.launch.py and isaac_playback.launch.py.

replay.launch.py: a bag and the policy over it; no robot moves. The launch exits with 0 when the bag has been replayed
or after Ctrl-C, with another code if the bag cannot be replayed or the recorded policy gave other targets.

isaac_playback.launch.py: a recording in place of a robot, and the controller with its policy. The launch exits with 0
when the recording has been played or after Ctrl-C, with another code if the controller was in fault or a program
crashed.
"""

from functools import partial
from pathlib import Path

from launch_ros.actions import Node

from fcnet_controller.descriptions.arguments import (
    LOG_LEVEL,
    MONITOR,
    NAMESPACE,
    SuiteLaunch,
    describe,
    end_after,
    parameter_argument,
)
from fcnet_controller.descriptions.robot import SIMULATION_TIMEOUT, check_policy

OF_REPLAY = ("bag", "rate", "policy", "robot", "namespace", "loop", "summary")
REPLAY_ARGUMENTS = (*(parameter_argument("replay", name) for name in OF_REPLAY), *MONITOR, LOG_LEVEL)
PLAYBACK_ARGUMENTS = (
    *(parameter_argument("isaac_playback", name) for name in ("recording", "mapping", "live")),
    parameter_argument("isaac_playback", "robot", "controller"),
    parameter_argument("controller", "policy", "isaac_playback"),
    parameter_argument("controller", "control_rate", "isaac_playback"),
    *(parameter_argument("isaac_playback", name) for name in ("rate", "loop", "publish_commands", "summary")),
    *MONITOR,
    NAMESPACE,
    LOG_LEVEL,
)


def _start_replay(launch: SuiteLaunch) -> list[Node]:
    if not launch["bag"] or not Path(launch["bag"]).exists():
        launch.refuse("bag", "is not a recording; give the folder of one")
    launch.namespace = ""  # the replay takes it from the robot in the bag
    replay = launch.node("fcnet_controller", "replay", {"use_sim_time": True})
    if not launch["monitor"]:
        return [replay]
    # These imports would delay other launches.
    from fcnet_controller.replay.bag import namespace_in, renamed_topics
    from fcnet_replay.bags.bag import open_bag
    from fcnet_replay.recording_notes import robot_of

    bag = open_bag(launch["bag"])
    robot = launch["robot"] or robot_of(launch["bag"], bag.notes).name
    launch.namespace = namespace_in(bag, launch["namespace"])
    return [replay, *launch.monitor(robot, recorded=renamed_topics())]


def _start_playback(launch: SuiteLaunch) -> list[Node]:
    if bool(launch["recording"]) == bool(launch["live"]):
        launch.refuse("recording", "is needed, or else live:=HOST:PORT, the address of a running simulation")
    check_policy(launch, launch["robot"])
    pace = {"real_time_factor": launch["rate"], "state_timeout": SIMULATION_TIMEOUT}
    return [
        launch.node("sim_bridge", "isaac_playback", {}),
        launch.node("fcnet_controller", "controller", pace | {"auto_start": True, "follows_targets": False}),
        *launch.monitor(launch["robot"]),
    ]


REPLAYED = end_after("replay", "the bag has been replayed")
PLAYED = end_after("isaac_playback", "the recording has been played")
describe_replay = partial(describe, REPLAY_ARGUMENTS, "replay.launch.py", REPLAYED, _start_replay)
describe_playback = partial(describe, PLAYBACK_ARGUMENTS, "isaac_playback.launch.py", PLAYED, _start_playback)
