"""What the robots' launch files share: a robot (real or simulated), its controller and, where asked for, the demo.

Nothing goes on without any one of them, but everything without the recorder and the monitor: the launch ends with exit
code 0 when the demo has passed or Ctrl-C was pressed, with another when a program ended by itself or the demo failed.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

from launch import Action, LaunchContext, LaunchDescription
from launch.actions import OpaqueFunction
from launch_ros.actions import Node

from fcnet_controller.launch_arguments import ARGUMENTS, chosen_arguments, has_demo
from fcnet_controller.launch_choices import declared
from fcnet_controller.launch_end import end_after
from fcnet_controller.monitor_launch import monitor
from fcnet_controller.suite_node import suite_node
from fcnet_ros.recorder_gate import LAUNCH_TIMEOUT

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
    return _node("fcnet_controller", "teleop_joy", {"robot": robot, "bridge": f"{robot}_bridge"}, chosen)


def _recording(robot: str, chosen: dict[str, str]) -> list[Action]:
    """A recorder, where one is wanted."""
    if chosen["record"] == "false":
        return []
    from fcnet_controller.recording_launch import recording  # its imports would keep other launches waiting

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
    return _node("fcnet_controller", "demo_course", parameters, chosen)


def _free_port() -> int:
    """A UDP port that nobody uses now: desks side by side shall not meet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((THIS_COMPUTER, 0))
        return int(probe.getsockname()[1])


def _node(package: str, executable: str, parameters: dict[str, Any], chosen: dict[str, str]) -> Node:
    return suite_node(package, executable, parameters, chosen, END)
