"""A robot's launch file: a robot (real or simulated), its controller and, on request, the demo.

The launch stops when one of them exits, but not when the recorder or the monitor does. It exits with 0 after Ctrl-C or
when the demo has passed, with another code if a program crashed or the demo failed.
"""

import ipaddress
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any, Literal

from launch import Action, LaunchDescription
from launch_ros.actions import Node

from fcnet_controller.descriptions.arguments import (
    BOARD,
    LOG_LEVEL,
    MONITOR,
    NAMESPACE,
    SIMULATOR,
    Argument,
    SuiteLaunch,
    describe,
    end_after,
    go_on_without,
    missing_packages,
    parameter_argument,
)
from fcnet_core.errors import FcnetError
from fcnet_core.files import check_writable, read_settings
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.names import ROBOT_DESCRIPTION, TF
from fcnet_core.robot import load_robot
from fcnet_core.urdf import robot_urdf
from fcnet_ros.parameters import RECORDER_TIMEOUT, executable_parameters

Compression = Literal["none", "zstd_fast", "zstd_small"]  # storage presets of rosbag2_storage_mcap
MUJOCO, SIMULATED, WIRED, DESK = ("mujoco",), ("mujoco", "desk"), ("unitree", "desk"), ("desk",)  # backends
THIS_COMPUTER = "127.0.0.1"
# [s] A busy computer may delay a simulated robot or its controller by this much.
SIMULATION_TIMEOUT = 1.0
SIMULATION_PATIENCE = 0.5
DEMO_TIMEOUT = 5.0  # [s] of simulated time, which does not wait for a delayed demo
STATE_PUBLISHER = "robot_state_publisher"
FRAME_RATE = 50.0  # [Hz] of the frames
END = end_after("demo_course", "the demo has passed")


def check_new_folder(text: str) -> None:
    """Raise ValueError unless a folder can be made there."""
    if Path(text).exists():
        raise FcnetError("it exists, and recordings are never overwritten; give another name")
    check_writable(text)


BACKEND = (
    "mujoco (a simulated robot), unitree (a robot on the network, passive until it is requested to stand up) or "
    "desk (a simulated robot behind a motor board and the bridge of the real one)"
)
DEMO = "true is short for command:=demo; hard: a push topples the robot, and it gets up again"
DESCRIPTION = "true starts robot_state_publisher, whose frames RViz and Foxglove draw (docs/monitor.md)"
RECORD = "true records a bag of states, commands, targets and modes (docs/replay.md)"
PARAMS_FILE = "YAML file with the nodes' parameters, which win over the launch's"
FREE = "for backend:=desk a free port"

ARGUMENTS = (
    Argument("backend", "mujoco", BACKEND, Literal["mujoco", "desk", "unitree"]),
    parameter_argument("controller", "policy", SIMULATOR),
    Argument("command", "none", "commands: none (publish cmd_vel) or demo (a course)", Literal["none", "demo"]),
    Argument("demo", "false", DEMO, bool | Literal["hard"]),
    parameter_argument(SIMULATOR, "terrain", BOARD, default="", backends=SIMULATED, note="in a demo for its course"),
    parameter_argument(SIMULATOR, "start", backends=MUJOCO),
    parameter_argument(SIMULATOR, "start_x", BOARD, backends=SIMULATED),
    parameter_argument(SIMULATOR, "start_y", BOARD, backends=SIMULATED),
    parameter_argument(SIMULATOR, "start_heading", BOARD, backends=SIMULATED),
    parameter_argument(SIMULATOR, "real_time_factor", "controller", "demo_course", backends=MUJOCO),
    parameter_argument(SIMULATOR, "clock", backends=MUJOCO),
    parameter_argument(SIMULATOR, "lockstep", default="", backends=MUJOCO, note="in a demo for auto"),
    parameter_argument("controller", "control_rate", SIMULATOR),
    parameter_argument("bridge", "network.target", default="", backends=("unitree",)),
    parameter_argument("bridge", "network.port", default="", backends=WIRED, note=FREE),
    parameter_argument("bridge", "network.local_port", default="", backends=WIRED, note=FREE),
    parameter_argument("bridge", "transport", default="", backends=WIRED),
    parameter_argument("bridge", "generation", BOARD, default="", backends=WIRED),
    *(parameter_argument(BOARD, fault, default="", backends=DESK) for fault in ("loss", "jitter", "delay")),
    parameter_argument("controller", "targets_over", SIMULATOR, "bridge"),
    NAMESPACE,
    Argument("params_file", "", PARAMS_FILE, check=partial(read_settings, kind=dict, what="parameter file")),
    LOG_LEVEL,
    Argument("record", "false", RECORD, bool),
    Argument("bag", "", "record: the bag's new folder; empty for fcnet_<robot>_<date>_<time>", check=check_new_folder),
    Argument("bag_compression", "none", "record: zstd_fast makes a bag a third as large", Compression),
    *MONITOR,
    Argument("description", "false", DESCRIPTION, bool),
    parameter_argument(SIMULATOR, "viewer", BOARD, backends=SIMULATED),
)


def describe_robot(file: str) -> LaunchDescription:
    """Return the description of a robot's launch file, whose name is that of the robot: <robot>.launch.py."""
    robot = Path(file).name.removesuffix(".launch.py")
    return describe(ARGUMENTS, f"{robot}.launch.py", END, partial(_start, robot))


def _start(robot: str, launch: SuiteLaunch) -> list[Action]:
    backend = launch["backend"]
    course = "normal" if launch["demo"] or launch["command"] == "demo" else ""
    course = "hard" if launch["demo"] == "hard" else course
    _refuse_unsuitable(robot, launch, course)
    # The robot's programs wait for a recorder, so that the bag has the whole run.
    waiting: dict[str, Any] = {"recorder_timeout": RECORDER_TIMEOUT} if launch["record"] else {}
    # A simulated robot walks immediately; a real one is passive until it is requested to stand up.
    start = {"auto_activate" if backend == "unitree" else "auto_start": True}
    controller = {**launch.parameters("controller"), "robot": robot, **start, **waiting}
    # Whether the simulation waits for the controller: a demo has to pass on slow computers as well.
    lockstep = launch["lockstep"] or ("auto" if course and backend == "mujoco" else "never")
    launch.simulated_time = launch["clock"] or lockstep != "never"
    if backend == "mujoco":
        controller |= {"state_timeout": SIMULATION_TIMEOUT, "simulated_time": launch.simulated_time}
        if course and launch.simulated_time:
            controller["cmd_vel_timeout"] = DEMO_TIMEOUT
    actions: list[Action] = []
    if launch["record"]:
        from fcnet_controller.descriptions.recording import recording  # its imports would delay other launches

        actions += recording(robot, launch, controller)
    simulated = {"robot": robot, **({"terrain": "course"} if course == "normal" and not launch["terrain"] else {})}
    if backend == "mujoco":  # a robot in MuJoCo that has the topics of a real one
        clock = {"clock": launch.simulated_time, "lockstep": lockstep, "patience": SIMULATION_PATIENCE}
        actions.append(launch.node("sim_bridge", SIMULATOR, simulated | clock | waiting))
    else:
        actions += _behind_bridge(robot, launch, simulated, waiting)
    actions.append(launch.node("fcnet_controller", "controller", controller))
    if launch["description"]:
        actions.append(_state_publisher(robot, launch))
    bridge = "" if backend == "mujoco" else f"{robot}_bridge"
    actions += launch.monitor(robot, bridge=bridge)
    if course:
        demo = {"course": course, "simulator": BOARD if bridge else SIMULATOR, "bridge": bridge}
        actions.append(launch.node("fcnet_teleop", "demo_course", demo))
    return actions


def _behind_bridge(robot: str, launch: SuiteLaunch, simulated: dict[str, Any], waiting: dict[str, Any]) -> list[Action]:
    """Return the bridge of a robot on the network and the node for its wireless remote and any joystick; for the desk
    also a robot in MuJoCo behind a motor board, connected over UDP. simulated: parameters of that robot.
    """
    actions: list[Action] = []
    name, bridge = f"{robot}_bridge", waiting | {"auto_start": True}
    if launch["backend"] == "desk":
        ports = {port: launch[port] or _free_port() for port in ("network.port", "network.local_port")}
        bridge |= {"network.target": THIS_COMPUTER, "allow_recovery": True, **ports}
        board = {"address": THIS_COMPUTER, "port": ports["network.port"]}
        actions.append(launch.node("sim_bridge", BOARD, simulated | board | waiting))
    actions.append(launch.node(name, "bridge", bridge))
    actions.append(launch.node("fcnet_teleop", "teleop_joy", {"robot": robot, "bridge": name}))
    return actions


def _refuse_unsuitable(robot: str, launch: SuiteLaunch, course: str) -> None:
    """Raise LaunchArgumentError for arguments that do not fit together."""
    backend = launch["backend"]
    if backend != "unitree" and executable_parameters(SIMULATOR) is None:
        launch.refuse("backend", "needs the simulator, which is not installed here; install MuJoCo and sim_bridge")
    for argument in ARGUMENTS:
        is_default = launch[argument.name] == argument.value(argument.default)
        if argument.backends and backend not in argument.backends and not is_default:
            known = " or ".join(argument.backends)
            launch.refuse(argument.name, f"is not for backend:={backend}; leave it out, or choose backend:={known}")
    if backend == "unitree" and course == "hard":
        launch.refuse("demo", "pushes the robot over, a simulated one; choose backend:=mujoco or backend:=desk")
    if backend == "unitree" and course and not _is_this_computer(launch["network.target"]):
        remedy = "choose backend:=desk, or a network.target on this computer, such as 127.0.0.1"
        launch.refuse("backend", f"is not for a demo, which walks a course without seeing obstacles; {remedy}")
    check_policy(launch, robot)
    if launch["viewer"] and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        launch.refuse("viewer", "needs a display, and there is none; leave it out or set DISPLAY")
    if launch["description"] and (missing := missing_packages(STATE_PUBLISHER)):
        remedy = f"use monitor:=true instead, or sudo apt install {missing}"
        launch.refuse("description", f"starts {STATE_PUBLISHER}, which is not installed here; {remedy}")
    if not launch["record"] and (launch["bag"] or launch["bag_compression"] != "none"):
        name = "bag" if launch["bag"] else "bag_compression"
        launch.refuse(name, "is for a recording; add record:=true")


def check_policy(launch: SuiteLaunch, robot: str) -> None:
    """Raise LaunchArgumentError unless the policy, if one is given, is for the robot."""
    if launch["policy"]:
        try:
            check_robot(load_model(launch["policy"]), load_robot(robot))
        except FcnetError as error:
            launch.refuse("policy", f"does not suit the robot: {error}")


def _is_this_computer(target: str) -> bool:
    try:
        return ipaddress.ip_address(target).is_loopback
    except ValueError:
        return target == "localhost"


def _state_publisher(robot: str, launch: SuiteLaunch) -> Node:
    """Return robot_state_publisher, which publishes the frames; the bridge publishes robot_description itself."""
    tf, description = TF.name, ROBOT_DESCRIPTION.name
    remapped = {f"/{tf}": tf, f"/{tf}_static": f"{tf}_static", description: f"{STATE_PUBLISHER}/{description}"}
    parameters = {description: robot_urdf(load_robot(robot)), "publish_frequency": FRAME_RATE}
    report = go_on_without(STATE_PUBLISHER, "the robot keeps running")
    return launch.node(STATE_PUBLISHER, STATE_PUBLISHER, parameters, remappings=remapped, on_exit=report)


def _free_port() -> int:
    """Return a UDP port that is free now, so that two desks on one computer do not interfere."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((THIS_COMPUTER, 0))
        return int(probe.getsockname()[1])
