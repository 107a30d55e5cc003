"""What a robot's launch file starts: a robot (real or simulated), its controller and, where requested, the demo.

Nothing goes on without any one of them, but everything without the recorder and the monitor: the launch ends with exit
code 0 when the demo has passed or Ctrl-C was pressed, with another when a program ended by itself or the demo failed.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any, Literal

import yaml
from launch import Action, LaunchDescription
from launch_ros.actions import Node

from fcnet_controller.descriptions.arguments import (
    LOG_LEVEL,
    MONITOR,
    NAMESPACE,
    SIMULATORS,
    Argument,
    Port,
    Share,
    SuiteLaunch,
    check_file,
    check_output,
    debian_packages,
    describe,
    end_after,
    go_on_without,
    limited,
    missing_packages,
    within,
)
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.names import ROBOT_DESCRIPTION, TF
from fcnet_core.robot import load_robot
from fcnet_core.urdf import robot_urdf
from fcnet_ros.recorder_gate import LAUNCH_TIMEOUT
from quadruped_sim.physics.placement import PLACES, StartPose
from quadruped_sim.physics.terrain import TERRAINS, named_terrain

Compression = Literal["none", "zstd_fast", "zstd_small"]  # storage presets of rosbag2_storage_mcap
SIMULATED, WIRED, DESK = ("mujoco", "desk"), ("unitree", "desk"), ("desk",)
BOARD, BRIDGE = ("mujoco_board",), ("bridge",)
COMMANDED = ("controller", "mujoco_bridge", "bridge")
PACED = ("controller", "mujoco_bridge", "demo_course")
CONTROLLED = ("controller", "mujoco_bridge")
FREE = "on a desk for one that is free"
THIS_COMPUTER = "127.0.0.1"
# [s] A busy computer that holds up a simulated robot or its controller is no fault of theirs.
SIMULATION_TIMEOUT = 1.0
SIMULATION_PATIENCE = 0.5
DEMO_TIMEOUT = 5.0  # [s] of simulated time, which does not wait for the demo where that is held up
# [Hz] of the simulator's states and of control where nothing else is chosen; lockstep needs a multiple.
PUBLISH_RATE, CONTROL_RATE = 250.0, 50.0
STATE_PUBLISHER = "robot_state_publisher"
FRAME_RATE = 50.0  # [Hz] of the frames
END = end_after("demo_course", "the demo has passed")


def check_yaml(text: str) -> None:
    """Raise ValueError unless a text is the path of a YAML file."""
    check_file(text)
    try:
        yaml.safe_load(Path(text).read_bytes())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no YAML: {' '.join(str(error).split())}") from error


def check_new_folder(text: str) -> None:
    """Raise ValueError unless a folder can be made there."""
    if Path(text).exists():
        raise ValueError("it exists already, and no recording is overwritten; name another")
    check_output(text)


def at(coordinate: str) -> Any:
    """Return the kind of an argument that is a coordinate of a place on a terrain."""
    return limited(*PLACES[coordinate])


BACKEND = (
    "what moves the joints: mujoco (a simulated robot), unitree (a robot on the network; it stays passive until it is "
    "requested to stand up), desk (a simulated robot behind a motor board and the bridge of the real one)"
)
GENERATION = "packets: gen33 (A1, Aliengo), gen38; empty for gen33"
TARGETS = "what carries targets: dds, or local, a socket of this computer, which no other user can send to"
DEMO = "true is short for command:=demo; hard for a course on which a push topples the robot, and it gets up"
TERRAIN = f"ground: {', '.join(TERRAINS)}, or a YAML file of one; empty for flat, in a demo for its course"
CLOCK = "true publishes simulated time on /clock, and all nodes keep it; lockstep does, too"
LOCKSTEP = (
    "the simulation waits for the controller's targets in every control period: always, never, or auto, from when real "
    "time is not reached; empty for auto in a demo, else never"
)
DESCRIPTION = "true starts robot_state_publisher, whose frames RViz and Foxglove draw (docs/monitor.md)"
RECORD = "true records a bag of states, commands, targets and modes (docs/replay.md)"


ARGUMENTS = (
    Argument("backend", "mujoco", BACKEND, Literal["mujoco", "desk", "unitree"]),
    Argument(
        "policy", "", "model file; empty for the one shipped for this robot", nodes=("controller",), check=load_model
    ),
    Argument("command", "none", "commands: none (publish cmd_vel) or demo (a course)", Literal["none", "demo"]),
    Argument("demo", "false", DEMO, bool | Literal["hard"]),
    Argument("terrain", "", TERRAIN, str, SIMULATORS, SIMULATED, named_terrain),
    Argument("start", "lying", "pose: lying, standing or on_back", StartPose, ("mujoco_bridge",), ("mujoco",)),
    Argument("start_x", "0.0", "start [m]; slopes and stairs begin at 1.5", at("x"), SIMULATORS, SIMULATED),
    Argument("start_y", "0.0", "start [m] to the left", at("y"), SIMULATORS, SIMULATED),
    Argument("start_heading", "0.0", "start, heading [rad]", at("heading"), SIMULATORS, SIMULATED),
    Argument("real_time_factor", "1.0", "simulated seconds per second", within("real_time_factor"), PACED, ("mujoco",)),
    Argument("clock", "false", CLOCK, bool, backends=("mujoco",)),
    Argument("lockstep", "", LOCKSTEP, Literal["never", "auto", "always"], backends=("mujoco",)),
    Argument("control_rate", "", "control cycles per second [Hz]; empty for 50", within("control_rate"), CONTROLLED),
    Argument("network.target", "", "address of the motor board; empty for 192.168.123.10", str, BRIDGE, ("unitree",)),
    Argument("network.port", "", f"UDP port of the motor board; empty for 8007, {FREE}", Port, BRIDGE, WIRED),
    Argument("network.local_port", "", f"UDP port of this computer; empty for 8080, {FREE}", Port, BRIDGE, WIRED),
    Argument(
        "transport", "", "wire (UDP) or sdk (the vendor's); empty for wire", Literal["wire", "sdk"], BRIDGE, WIRED
    ),
    Argument("generation", "", GENERATION, Literal["gen33", "gen38"], BRIDGE + BOARD, WIRED),
    Argument("loss", "", "share of the packets that are lost, such as 0.01", Share, BOARD, DESK),
    Argument("jitter", "", "largest random delay of a packet [s], such as 0.002", Share, BOARD, DESK),
    Argument("delay", "", "delay of every packet [s]", Share, BOARD, DESK),
    Argument("targets_over", "dds", TARGETS, Literal["dds", "local"], COMMANDED),
    NAMESPACE,
    Argument("params_file", "", "YAML file with the nodes' parameters, which win over the launch's", check=check_yaml),
    LOG_LEVEL,
    Argument("record", "false", RECORD, bool),
    Argument("bag", "", "record: the bag's new folder; empty for fcnet_<robot>_<date>_<time>", check=check_new_folder),
    Argument("bag_compression", "none", "record: zstd_fast makes a bag a third as large", Compression),
    *MONITOR,
    Argument("description", "false", DESCRIPTION, bool),
    Argument("viewer", "false", "true opens MuJoCo's window; needs a display", bool, SIMULATORS, SIMULATED),
)


def describe_robot(robot: str) -> LaunchDescription:
    """Return the launch description of the robot called `robot`."""
    return describe(ARGUMENTS, f"{robot}.launch.py", END, partial(_start, robot))


def _start(robot: str, launch: SuiteLaunch) -> list[Action]:
    backend, course = launch["backend"], _course(launch)
    _refuse_unsuitable(robot, launch, course)
    # A robot's programs wait for the recorder, where there is one: the bag then has the whole run.
    waiting: dict[str, Any] = {"recorder_timeout": LAUNCH_TIMEOUT} if launch["record"] else {}
    # A simulated robot walks at once; a real one is passive until it is requested to stand up.
    start = {"auto_activate" if backend == "unitree" else "auto_start": True}
    controller = {**launch.parameters("controller"), "robot": robot, **start, **waiting}
    lockstep = _lockstep(launch, course)
    launch.simulated_time = launch["clock"] or lockstep != "never"
    if backend == "mujoco":
        controller |= {"state_timeout": SIMULATION_TIMEOUT, "simulated_time": launch.simulated_time}
        if course and launch.simulated_time:
            controller["cmd_vel_timeout"] = DEMO_TIMEOUT
    actions: list[Action] = []
    if launch["record"]:
        from fcnet_controller.descriptions.recording import recording  # its imports would keep other launches waiting

        actions += recording(robot, launch, controller)
    backends = {"mujoco": _simulated, "desk": _on_desk, "unitree": _real}
    clock: dict[str, Any] = {"clock": launch.simulated_time, "lockstep": lockstep} if backend == "mujoco" else {}
    actions += backends[backend](robot, launch, waiting | clock)
    actions.append(launch.node("fcnet_controller", "controller", controller))
    if launch["description"]:
        actions.append(_state_publisher(robot, launch))
    actions += launch.monitor(robot, bridge="" if backend == "mujoco" else f"{robot}_bridge")
    if course:
        demo = {
            "status_terminal": os.ttyname(sys.stdout.fileno()) if sys.stdout.isatty() else "",
            "course": course,
            "simulator": "mujoco_bridge" if backend == "mujoco" else "mujoco_board",
            "bridge": "" if backend == "mujoco" else f"{robot}_bridge",
        }
        actions.append(launch.node("fcnet_teleop", "demo_course", demo))
    return actions


def _course(launch: SuiteLaunch) -> str:
    """The demo's course, nothing where there is no demo."""
    if launch["demo"] == "hard":
        return "hard"
    return "normal" if launch["demo"] or launch["command"] == "demo" else ""


def _lockstep(launch: SuiteLaunch, course: str) -> str:
    """When the simulation waits for the controller. A demo shall pass on any computer, however slow."""
    fits = PUBLISH_RATE % (launch["control_rate"] or CONTROL_RATE) == 0.0
    automatic = "auto" if course and launch["backend"] == "mujoco" and fits else "never"
    return launch["lockstep"] or automatic


def _refuse_unsuitable(robot: str, launch: SuiteLaunch, course: str) -> None:
    """Raise ValueError with a sentence for arguments that do not fit together."""
    backend = launch["backend"]
    for argument in ARGUMENTS:
        is_default = launch[argument.name] == argument.value(argument.default)
        if argument.backends and backend not in argument.backends and not is_default:
            raise ValueError(
                f"launch argument {argument.name}:={launch.texts[argument.name]} means nothing to backend:={backend}; "
                f"leave it out, or choose backend:={' or '.join(argument.backends)}"
            )
    if backend == "unitree" and course == "hard":
        raise ValueError("demo:=hard pushes the robot over, a simulated one; choose backend:=mujoco or backend:=desk")
    if backend == "unitree" and course and not _is_this_computer(launch["network.target"]):
        raise ValueError(
            "the demo walks a course without looking where it goes and is for simulated robots; choose backend:=desk, "
            "or a network.target on this computer, such as 127.0.0.1"
        )
    if launch["policy"]:
        check_robot(load_model(launch["policy"]), load_robot(robot))
    if launch["viewer"] and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ValueError("launch argument viewer:=true needs a display, and there is none; leave it out or set DISPLAY")
    if launch["description"] and (missing := missing_packages(STATE_PUBLISHER)):
        raise ValueError(
            "launch argument description:=true starts robot_state_publisher, which comes with a ROS distribution and "
            f"is not installed here; leave it out and use monitor:=true, or sudo apt install {debian_packages(missing)}"
        )
    if not launch["record"] and (launch["bag"] or launch["bag_compression"] != "none"):
        name = "bag" if launch["bag"] else "bag_compression"
        raise ValueError(
            f"launch argument {name}:={launch[name]} is for a recording, but nothing is recorded; add record:=true"
        )


def _is_this_computer(target: str) -> bool:
    try:
        return ipaddress.ip_address(target).is_loopback
    except ValueError:
        return target == "localhost"


def _simulated(robot: str, launch: SuiteLaunch, parameters: dict[str, Any]) -> list[Action]:
    """Return a robot in MuJoCo that has the topics of a real one."""
    simulated = {"robot": robot, "patience": SIMULATION_PATIENCE, **_ground(launch), **parameters}
    return [launch.node("sim_bridge", "mujoco_bridge", simulated)]


def _on_desk(robot: str, launch: SuiteLaunch, waiting: dict[str, float]) -> list[Action]:
    """Return a robot in MuJoCo behind a motor board, and the bridge of a real robot, which reaches it over UDP."""
    ports = {name: launch[name] or _free_port() for name in ("network.port", "network.local_port")}
    board = {"robot": robot, "address": THIS_COMPUTER, "port": ports["network.port"], **_ground(launch), **waiting}
    bridge = {"network.target": THIS_COMPUTER, "allow_recovery": True, **ports, **waiting}
    return [launch.node("sim_bridge", "mujoco_board", board), *_real(robot, launch, bridge)]


def _real(robot: str, launch: SuiteLaunch, parameters: dict[str, Any]) -> list[Action]:
    """Return the bridge of a robot on the network, and what reads the robot's wireless remote and any joystick."""
    bridge = f"{robot}_bridge"
    return [
        launch.node(bridge, "bridge", {**parameters, "auto_start": True}),
        launch.node("fcnet_teleop", "teleop_joy", {"robot": robot, "bridge": bridge}),
    ]


def _state_publisher(robot: str, launch: SuiteLaunch) -> Node:
    """Return what makes the robot's frames of joint_states. The bridge publishes robot_description itself."""
    return launch.node(
        STATE_PUBLISHER,
        STATE_PUBLISHER,
        {ROBOT_DESCRIPTION.name: robot_urdf(load_robot(robot)), "publish_frequency": FRAME_RATE},
        remappings={
            f"/{TF.name}": TF.name,
            f"/{TF.name}_static": f"{TF.name}_static",
            ROBOT_DESCRIPTION.name: f"{STATE_PUBLISHER}/{ROBOT_DESCRIPTION.name}",
        },
        on_exit=go_on_without("robot_state_publisher", "the robot goes on"),
    )


def _ground(launch: SuiteLaunch) -> dict[str, str]:
    """The demo's ground, where no other is wanted."""
    return {"terrain": "course"} if _course(launch) == "normal" and not launch["terrain"] else {}


def _free_port() -> int:
    """Return a UDP port that nothing uses now, so that desks side by side do not meet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((THIS_COMPUTER, 0))
        return int(probe.getsockname()[1])
