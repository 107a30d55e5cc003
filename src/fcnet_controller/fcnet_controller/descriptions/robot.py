"""What a robot's launch file starts: a robot (real or simulated), its controller and, where asked for, the demo.

Nothing goes on without any one of them, but everything without the recorder and the monitor: the launch ends with exit
code 0 when the demo has passed or Ctrl-C was pressed, with another when a program ended by itself or the demo failed.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import Any

from launch import Action, LaunchContext, LaunchDescription
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
    port_of,
    positive,
    suite_node,
    up_to_one,
)
from fcnet_ros.recorder_gate import LAUNCH_TIMEOUT

COMPRESSIONS = ("none", "zstd_fast", "zstd_small")  # storage presets of rosbag2_storage_mcap
SIMULATED, WIRED, DESK = ("mujoco", "desk"), ("unitree", "desk"), ("desk",)
GENERATIONS = ("gen33", "gen38")
FREE = "on a desk for one that is free"
THIS_COMPUTER = "127.0.0.1"
# [s] A busy computer that holds up a simulated robot or its controller is no fault of theirs.
SIMULATION_TIMEOUT = 1.0
SIMULATION_PATIENCE = 0.5
END = end_after("demo_course", "the demo has passed")

BACKEND = (
    "what moves the joints: mujoco (a simulated robot), unitree (a robot on the network; it stays passive until it is "
    "told to stand up), desk (a simulated robot behind a motor board and the bridge of the real one)"
)
UDP = port_of("UDP")


def _is_file(path: str) -> str:
    return "" if Path(path).is_file() else "is not a file; give the path of one"


def _is_new(path: str) -> str:
    return "exists already, and no recording is overwritten; name another" if Path(path).exists() else ""


# Name, default, description, choices, check, backends. An empty default leaves it to the node.
ARGUMENTS = (
    Argument("backend", "mujoco", BACKEND, ("mujoco", "desk", "unitree")),
    Argument("policy", "", "model file; empty for the one shipped for this robot"),
    Argument("command", "none", "who commands the robot: none (publish cmd_vel) or demo (a course)", ("none", "demo")),
    Argument("demo", "false", "true is short for command:=demo", BOOLEANS),
    Argument("terrain", "flat", "ground of the simulation, a name from quadruped_sim/terrain.py", backends=SIMULATED),
    Argument("real_time_factor", "1.0", "simulated seconds per second", (), positive, ("mujoco",)),
    Argument("control_rate", "", "control cycles per second [Hz]; empty for the controller's default", (), positive),
    Argument("network.target", "", "address of the motor board; empty for 192.168.123.10", backends=("unitree",)),
    Argument("network.port", "", f"UDP port of the motor board; empty for 8007, {FREE}", (), UDP, WIRED),
    Argument("network.local_port", "", f"UDP port of this computer; empty for 8080, {FREE}", (), UDP, WIRED),
    Argument("transport", "", "wire (UDP) or sdk (the vendor's); empty for wire", ("wire", "sdk"), backends=WIRED),
    Argument("generation", "", "packets: gen33 (A1, Aliengo), gen38; empty for gen33", GENERATIONS, backends=WIRED),
    Argument("loss", "", "share of the packets that are lost, such as 0.01", (), up_to_one, DESK),
    Argument("jitter", "", "largest random delay of a packet [s], such as 0.002", (), up_to_one, DESK),
    Argument("delay", "", "delay of every packet [s]", (), up_to_one, DESK),
    NAMESPACE,
    Argument("params_file", "", "YAML file with the nodes' parameters, which win over the launch's", (), _is_file),
    LOG_LEVEL,
    Argument("record", "false", "true records a bag of states, commands, targets and modes (docs/replay.md)", BOOLEANS),
    Argument("bag", "", "record: the bag's new folder; empty for fcnet_<robot>_<date>_<time>", (), _is_new),
    Argument("bag_compression", "none", "record: zstd_fast makes a bag a third as large", COMPRESSIONS),
    *MONITOR,
    Argument("viewer", "false", "true opens MuJoCo's window; needs a display", BOOLEANS, backends=SIMULATED),
)


def describe_robot(robot: str) -> LaunchDescription:
    """The launch description of the robot called `robot`."""
    return describe(ARGUMENTS, _start, robot)


def _start(context: LaunchContext, robot: str) -> list[Action]:
    chosen = chosen_arguments(context, ARGUMENTS, f"{robot}.launch.py")
    has_demo = chosen["demo"] == "true" or chosen["command"] == "demo"
    _refuse_unsuitable(chosen, has_demo)
    parameters = _controller_parameters(robot, chosen)
    actions: list[Action] = []
    if chosen["record"] == "true":
        from fcnet_controller.descriptions.recording import recording  # its imports would keep other launches waiting

        actions += recording(robot, chosen, parameters)
    backends = {"mujoco": _simulated, "desk": _on_desk, "unitree": _real}
    actions += backends[chosen["backend"]](robot, chosen)
    actions.append(_node("fcnet_controller", "controller", parameters, chosen))
    actions += monitor(robot, chosen, bridge="" if chosen["backend"] == "mujoco" else f"{robot}_bridge")
    if has_demo:
        terminal = os.ttyname(sys.stdout.fileno()) if sys.stdout.isatty() else ""
        demo = {"status_terminal": terminal, "real_time_factor": float(chosen["real_time_factor"])}
        actions.append(_node("fcnet_teleop", "demo_course", demo, chosen))
    return actions


def _refuse_unsuitable(chosen: Chosen, has_demo: bool) -> None:
    """Raise ValueError with a sentence for arguments that do not fit together."""
    backend = chosen["backend"]
    for argument in ARGUMENTS:
        text = chosen[argument.name]
        if argument.backends and backend not in argument.backends and not argument.is_default(text):
            raise ValueError(
                f"launch argument {argument.name}:={text} means nothing to backend:={backend}; leave it out, or choose "
                f"backend:={' or '.join(argument.backends)}"
            )
    if backend == "unitree" and has_demo and not _is_this_computer(chosen["network.target"]):
        raise ValueError(
            "the demo walks a course without looking where it goes and is for simulated robots; choose backend:=desk, "
            "or a network.target on this computer, such as 127.0.0.1"
        )
    if chosen["record"] == "false" and (chosen["bag"] or chosen["bag_compression"] != "none"):
        name = "bag" if chosen["bag"] else "bag_compression"
        raise ValueError(
            f"launch argument {name}:={chosen[name]} is for a recording, but nothing is recorded; add record:=true"
        )


def _is_this_computer(target: str) -> bool:
    try:
        return ipaddress.ip_address(target).is_loopback
    except ValueError:
        return target == "localhost"


def _simulated(robot: str, chosen: Chosen) -> list[Node]:
    """A robot in MuJoCo that understands the controller's topics."""
    factor = float(chosen["real_time_factor"])
    parameters = {**_simulation(robot, chosen), "real_time_factor": factor, "patience": SIMULATION_PATIENCE}
    return [_node("sim_bridge", "mujoco_bridge", parameters, chosen)]


def _on_desk(robot: str, chosen: Chosen) -> list[Node]:
    """A robot in MuJoCo behind a motor board, and the bridge of a real robot, which talks to it over UDP."""
    ports = {
        name: int(chosen[name]) if chosen[name] else _free_port() for name in ("network.port", "network.local_port")
    }
    board: dict[str, Any] = {**_simulation(robot, chosen), "address": THIS_COMPUTER, "port": ports["network.port"]}
    board |= {name: float(chosen[name]) for name in ("loss", "jitter", "delay") if chosen[name]}
    board |= {"generation": chosen["generation"]} if chosen["generation"] else {}
    network = {"network.target": THIS_COMPUTER, **ports}
    return [_node("sim_bridge", "mujoco_board", board, chosen), *_bridge(robot, network, chosen)]


def _real(robot: str, chosen: Chosen) -> list[Node]:
    """The bridge of a robot on the network."""
    network: dict[str, Any] = {"network.target": chosen["network.target"]} if chosen["network.target"] else {}
    network |= {name: int(chosen[name]) for name in ("network.port", "network.local_port") if chosen[name]}
    return _bridge(robot, network, chosen)


def _simulation(robot: str, chosen: Chosen) -> dict[str, Any]:
    parameters = {"robot": robot, "terrain": chosen["terrain"], "viewer": chosen["viewer"] == "true"}
    return parameters | _recorder_timeout(chosen)


def _bridge(robot: str, network: dict[str, Any], chosen: Chosen) -> list[Node]:
    """The bridge, and what reads the robot's wireless remote and any joystick."""
    packets = {name: chosen[name] for name in ("transport", "generation") if chosen[name]}
    parameters = {**network, **packets, "auto_start": True, **_recorder_timeout(chosen)}
    joystick = {"robot": robot, "bridge": f"{robot}_bridge"}
    return [
        _node(f"{robot}_bridge", "bridge", parameters, chosen),
        _node("fcnet_teleop", "teleop_joy", joystick, chosen),
    ]


def _recorder_timeout(chosen: Chosen) -> dict[str, float]:
    """Let a robot's programs wait for the recorder, where there is one: the bag then has the whole run."""
    return {} if chosen["record"] == "false" else {"recorder_timeout": LAUNCH_TIMEOUT}


def _controller_parameters(robot: str, chosen: Chosen) -> dict[str, Any]:
    """Of a controller that gets a simulated robot walking; a real one waits until somebody asks it to stand up."""
    parameters: dict[str, Any] = {
        "robot": robot,
        "policy": chosen["policy"],
        "real_time_factor": float(chosen["real_time_factor"]),
        "auto_activate" if chosen["backend"] == "unitree" else "auto_start": True,
        **_recorder_timeout(chosen),
    }
    if chosen["backend"] == "mujoco":
        parameters["state_timeout"] = SIMULATION_TIMEOUT
    if chosen["control_rate"]:
        parameters["control_rate"] = float(chosen["control_rate"])
    return parameters


def _free_port() -> int:
    """A UDP port that nobody uses now, so that desks side by side do not meet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((THIS_COMPUTER, 0))
        return int(probe.getsockname()[1])


def _node(package: str, executable: str, parameters: dict[str, Any], chosen: Chosen) -> Node:
    return suite_node(package, executable, parameters, chosen, END)
