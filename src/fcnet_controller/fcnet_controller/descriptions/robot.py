"""What the robots' launch files share: a robot (real or simulated), its controller and, where asked for, the demo.

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
from launch.actions import OpaqueFunction
from launch_ros.actions import Node

from fcnet_controller.descriptions import arguments as monitor_launch
from fcnet_controller.descriptions.arguments import (
    BOOLEANS,
    LOG_LEVELS,
    declared,
    end_after,
    given,
    monitor,
    number,
    refuse_other_than,
    refuse_other_than_port,
    refuse_other_than_positive,
    suite_node,
)
from fcnet_ros.recorder_gate import LAUNCH_TIMEOUT

# The arguments of a robot's launch file: described, and refused where they do not fit together.

BACKENDS = ("mujoco", "desk", "unitree")
COMMANDS = ("none", "demo")
TRANSPORTS = ("wire", "sdk")
GENERATIONS = ("gen33", "gen38")
COMPRESSIONS = ("none", "zstd_fast", "zstd_small")  # storage presets of rosbag2_storage_mcap

# Name: default, description. Empty means: leave it to the node.
ARGUMENTS = {
    "backend": (
        "mujoco",
        "what moves the joints: mujoco (a simulated robot), unitree (a robot on the network; it stays passive until "
        "it is told to stand up), desk (a simulated robot behind a motor board and the bridge of the real one)",
    ),
    "policy": ("", "model file; empty for the one shipped for this robot"),
    "command": ("none", "who commands the robot: none (publish cmd_vel yourself) or demo (a scripted course)"),
    "demo": ("false", "true is short for command:=demo"),
    "terrain": ("flat", "mujoco, desk: ground of the simulation, a name from quadruped_sim/terrain.py"),
    "real_time_factor": ("1.0", "mujoco: simulated seconds per second"),
    "control_rate": ("", "control cycles per second [Hz]; empty for the controller's default"),
    "network.target": ("", "unitree: address of the motor board; empty for 192.168.123.10"),
    "network.port": ("", "unitree, desk: UDP port of the motor board; empty for 8007, on a desk for one that is free"),
    "network.local_port": (
        "",
        "unitree, desk: UDP port of this computer; empty for 8080, on a desk for one that is free",
    ),
    "transport": ("", "unitree, desk: wire (UDP) or sdk (the vendor's library); empty for wire"),
    "generation": ("", "unitree, desk: format of the packets, gen33 (A1, Aliengo) or gen38; empty for gen33"),
    "loss": ("", "desk: share of the packets that are lost, such as 0.01"),
    "jitter": ("", "desk: largest random delay of a packet [s], such as 0.002"),
    "delay": ("", "desk: delay of every packet [s]"),
    "namespace": ("", "namespace of all nodes"),
    "params_file": ("", "YAML file with parameters of the nodes, which win over this launch file's"),
    "log_level": ("info", f"verbosity of the nodes: {', '.join(LOG_LEVELS)}"),
    "record": ("false", "true records a bag of states, commands, targets and modes (docs/replay.md)"),
    "bag": ("", "record: the bag's folder, which must not exist; empty for fcnet_<robot>_<date>_<time>"),
    "bag_compression": ("none", f"record: {', '.join(COMPRESSIONS)}; zstd_fast makes a bag a third as large"),
    **monitor_launch.ARGUMENTS,
    "viewer": ("false", "mujoco, desk: true opens MuJoCo's window; needs a display"),
}
# Arguments that only some backends know.
OF_BACKENDS = {
    "terrain": ("mujoco", "desk"),
    "viewer": ("mujoco", "desk"),
    "real_time_factor": ("mujoco",),
    "network.target": ("unitree",),
    **dict.fromkeys(("network.port", "network.local_port", "transport", "generation"), ("unitree", "desk")),
    **dict.fromkeys(("loss", "jitter", "delay"), ("desk",)),
}
CHOICES = {
    "backend": BACKENDS,
    "command": COMMANDS,
    "demo": BOOLEANS,
    "viewer": BOOLEANS,
    "record": BOOLEANS,
    "bag_compression": COMPRESSIONS,
    "log_level": LOG_LEVELS,
    "transport": ("", *TRANSPORTS),
    "generation": ("", *GENERATIONS),
}


def chosen_arguments(context: LaunchContext, robot: str) -> dict[str, str]:
    """The arguments as given. Raises ValueError with a sentence for what is unknown or does not fit together."""
    chosen = given(context, ARGUMENTS, f"{robot}.launch.py")
    for name, known in CHOICES.items():
        refuse_other_than(known, name, chosen)
    for name in ("real_time_factor", "control_rate"):
        if chosen[name]:
            refuse_other_than_positive(name, chosen)
    _refuse_unsuitable(chosen)
    monitor_launch.refuse_impossible_monitor(chosen)
    _refuse_impossible_network(chosen)
    _refuse_impossible_bag(chosen)
    if chosen["params_file"] and not Path(chosen["params_file"]).is_file():
        raise ValueError(f"launch argument params_file:={chosen['params_file']} is not a file; give the path of one")
    return chosen


def has_demo(chosen: dict[str, str]) -> bool:
    """Whether the demo is wanted."""
    return chosen["demo"] == "true" or chosen["command"] == "demo"


def _refuse_unsuitable(chosen: dict[str, str]) -> None:
    backend = chosen["backend"]
    for name, backends in OF_BACKENDS.items():
        if backend not in backends and not _is_default(name, chosen[name]):
            raise ValueError(
                f"launch argument {name}:={chosen[name]} means nothing to backend:={backend}; leave it out, or choose "
                f"backend:={' or '.join(backends)}"
            )
    if backend == "unitree" and has_demo(chosen) and not _is_this_computer(chosen["network.target"]):
        raise ValueError(
            "the demo walks a course without looking where it goes and is for simulated robots; choose backend:=desk, "
            "or a network.target on this computer, such as 127.0.0.1"
        )


def _is_default(name: str, value: str) -> bool:
    default, _ = ARGUMENTS[name]
    return value == default or (name == "real_time_factor" and number(value) == float(default))


def _refuse_impossible_network(chosen: dict[str, str]) -> None:
    for name in ("network.port", "network.local_port"):
        refuse_other_than_port("UDP", name, chosen)
    for name, most in (("loss", 1.0), ("jitter", 1.0), ("delay", 1.0)):
        if chosen[name] and not 0.0 <= number(chosen[name]) <= most:
            raise ValueError(f"launch argument {name}:={chosen[name]} must be a number from 0 to {most:g}")


def _refuse_impossible_bag(chosen: dict[str, str]) -> None:
    folder = chosen["bag"]
    if folder and chosen["record"] == "false":
        raise ValueError(f"launch argument bag:={folder} names a recording, but nothing is recorded; add record:=true")
    if chosen["bag_compression"] != "none" and chosen["record"] == "false":
        raise ValueError(
            f"launch argument bag_compression:={chosen['bag_compression']} means nothing where nothing is recorded; "
            "add record:=true"
        )
    if folder and Path(folder).exists():
        raise ValueError(f"launch argument bag:={folder} exists already, and no recording is overwritten; name another")


def _is_this_computer(target: str) -> bool:
    try:
        return ipaddress.ip_address(target).is_loopback
    except ValueError:
        return target == "localhost"


THIS_COMPUTER = "127.0.0.1"
# [s] A busy computer that holds up a simulated robot or its controller is no fault of theirs.
SIMULATION_TIMEOUT = 1.0
SIMULATION_PATIENCE = 0.5
END = end_after("demo_course", "the demo has passed")


def describe_robot(robot: str) -> LaunchDescription:
    """The launch description of the robot called `robot`."""
    return LaunchDescription([*declared(ARGUMENTS), OpaqueFunction(function=_start, args=[robot])])


def _start(context: LaunchContext, robot: str) -> list[Action]:
    chosen = chosen_arguments(context, robot)
    backends = {"mujoco": _simulated, "desk": _on_desk, "unitree": _real}
    nodes = [*_recording(robot, chosen), *backends[chosen["backend"]](robot, chosen), _controller(robot, chosen)]
    nodes += monitor(robot, chosen, bridge="" if chosen["backend"] == "mujoco" else f"{robot}_bridge")
    return [*nodes, _demo(chosen)] if has_demo(chosen) else nodes


def _simulated(robot: str, chosen: dict[str, str]) -> list[Node]:
    """A robot in MuJoCo that understands the controller's topics."""
    parameters = {
        **_simulation(robot, chosen),
        "real_time_factor": float(chosen["real_time_factor"]),
        "patience": SIMULATION_PATIENCE,
    }
    return [_node("sim_bridge", "mujoco_bridge", parameters, chosen)]


def _on_desk(robot: str, chosen: dict[str, str]) -> list[Node]:
    """A robot in MuJoCo behind a motor board, and the bridge of a real robot, which talks to it over UDP."""
    ports = {
        name: int(chosen[name]) if chosen[name] else _free_port() for name in ("network.port", "network.local_port")
    }
    board: dict[str, Any] = {**_simulation(robot, chosen), "address": THIS_COMPUTER, "port": ports["network.port"]}
    board |= {name: float(chosen[name]) for name in ("loss", "jitter", "delay") if chosen[name]}
    board |= {"generation": chosen["generation"]} if chosen["generation"] else {}
    return [
        _node("sim_bridge", "mujoco_board", board, chosen),
        _bridge(robot, {"network.target": THIS_COMPUTER, **ports}, chosen),
        _joystick(robot, chosen),
    ]


def _real(robot: str, chosen: dict[str, str]) -> list[Node]:
    """The bridge of a robot on the network."""
    network: dict[str, Any] = {"network.target": chosen["network.target"]} if chosen["network.target"] else {}
    network |= {name: int(chosen[name]) for name in ("network.port", "network.local_port") if chosen[name]}
    return [_bridge(robot, network, chosen), _joystick(robot, chosen)]


def _simulation(robot: str, chosen: dict[str, str]) -> dict[str, Any]:
    parameters = {"robot": robot, "terrain": chosen["terrain"], "viewer": chosen["viewer"] == "true"}
    return parameters | _recorder_timeout(chosen)


def _bridge(robot: str, network: dict[str, Any], chosen: dict[str, str]) -> Node:
    packets = {name: chosen[name] for name in ("transport", "generation") if chosen[name]}
    return _node(
        f"{robot}_bridge", "bridge", {**network, **packets, "auto_start": True, **_recorder_timeout(chosen)}, chosen
    )


def _joystick(robot: str, chosen: dict[str, str]) -> Node:
    """The robot's wireless remote, and any joystick."""
    return _node("fcnet_teleop", "teleop_joy", {"robot": robot, "bridge": f"{robot}_bridge"}, chosen)


def _recording(robot: str, chosen: dict[str, str]) -> list[Action]:
    """A recorder, where one is wanted."""
    if chosen["record"] == "false":
        return []
    from fcnet_controller.descriptions.recording import recording  # its imports would keep other launches waiting

    return recording(robot, chosen, _controller_parameters(robot, chosen))


def _recorder_timeout(chosen: dict[str, str]) -> dict[str, float]:
    """Let a robot's programs wait for the recorder, where there is one: the bag then has the whole run."""
    return {} if chosen["record"] == "false" else {"recorder_timeout": LAUNCH_TIMEOUT}


def _controller(robot: str, chosen: dict[str, str]) -> Node:
    return _node("fcnet_controller", "controller", _controller_parameters(robot, chosen), chosen)


def _controller_parameters(robot: str, chosen: dict[str, str]) -> dict[str, Any]:
    """Of a controller that gets a simulated robot walking; a real one waits until somebody asks it to stand up."""
    start = "auto_activate" if chosen["backend"] == "unitree" else "auto_start"
    parameters: dict[str, Any] = {
        "robot": robot,
        "policy": chosen["policy"],
        "real_time_factor": float(chosen["real_time_factor"]),
        start: True,
        **_recorder_timeout(chosen),
    }
    if chosen["backend"] == "mujoco":
        parameters["state_timeout"] = SIMULATION_TIMEOUT
    if chosen["control_rate"]:
        parameters["control_rate"] = float(chosen["control_rate"])
    return parameters


def _demo(chosen: dict[str, str]) -> Node:
    terminal = os.ttyname(sys.stdout.fileno()) if sys.stdout.isatty() else ""
    parameters = {"status_terminal": terminal, "real_time_factor": float(chosen["real_time_factor"])}
    return _node("fcnet_teleop", "demo_course", parameters, chosen)


def _free_port() -> int:
    """A UDP port that nobody uses now: desks side by side shall not meet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((THIS_COMPUTER, 0))
        return int(probe.getsockname()[1])


def _node(package: str, executable: str, parameters: dict[str, Any], chosen: dict[str, str]) -> Node:
    return suite_node(package, executable, parameters, chosen, END)
