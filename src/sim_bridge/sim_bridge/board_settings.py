"""The parameters of the MuJoCo board, declared with description and range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rclpy.node import Node

from fcnet_ros.recorder_gate import DESCRIPTION, LONGEST_TIMEOUT
from sim_bridge.parameter_declaration import declare, declare_number
from unitree_lowlevel.codec import GENERATIONS, Generation
from unitree_lowlevel.fake_board.faults import BoardFaults, fault_fields

# Faults of the line with their largest value; these and `silence` are parameters that may be set at any time.
LINE_FAULTS = {"delay": 1.0, "jitter": 1.0, "loss": 1.0, "duplicates": 1.0, "reordering": 1.0, "corruption": 1.0}
NEVER = 0.0


@dataclass(frozen=True)
class BoardSettings:
    """What the board simulates and where it listens; see the descriptions below."""

    robot: str
    terrain: str
    address: str
    port: int
    generation: Generation
    free_running: bool
    command_timeout: float | None
    odom_rate: float
    sensor_noise: float
    seed: int
    viewer: bool
    recorder_timeout: float
    faults: BoardFaults


def declare_board_settings(node: Node) -> BoardSettings:
    """Declare the parameters of `node` and read them. Raises ValueError with a sentence for what cannot be."""
    return BoardSettings(
        robot=declare(node, "robot", "aliengo", "robot to simulate, a file in config/robots"),
        terrain=declare(node, "terrain", "flat", "ground to walk on, a name from quadruped_sim/terrain.py"),
        address=declare(node, "address", "127.0.0.1", "where to listen"),
        port=declare(node, "port", 8007, "UDP port to listen at, 0 for a free one", integer=(0, 65535)),
        generation=_generation(declare(node, "generation", "gen33", f"wire format: {' or '.join(GENERATIONS)}")),
        free_running=declare(node, "free_running", True, "500 states a second; else one for each command"),
        command_timeout=declare_number(
            node, "command_timeout", NEVER, (NEVER, 10.0), "[s] after which the motors let go, 0 for never"
        )
        or None,
        odom_rate=declare_number(node, "odom_rate", 50.0, (1.0, 500.0), "places on odom per second [Hz]"),
        sensor_noise=declare_number(node, "sensor_noise", 1.0, (0.0, 10.0), "sensor noise, 1 is that in training"),
        seed=declare(node, "seed", 0, "seed of noise, pushes and line", integer=(0, 2**31 - 1)),
        viewer=declare(node, "viewer", False, "open MuJoCo's window; needs a display"),
        recorder_timeout=declare_number(node, "recorder_timeout", 0.0, (0.0, LONGEST_TIMEOUT), DESCRIPTION),
        faults=_declare_faults(node),
    )


def faults_after(faults: BoardFaults, parameters: Sequence[Any]) -> BoardFaults:
    """`faults` with what these parameters set of them. Raises ValueError with a sentence."""
    known = {*LINE_FAULTS, "silence"}
    return replace(faults, **{one.name: one.value for one in parameters if one.name in known})


def _declare_faults(node: Node) -> BoardFaults:
    meanings = {fault.name: fault.metadata["help"] for fault in fault_fields()}
    numbers: dict[str, Any] = {
        name: declare_number(node, name, 0.0, (0.0, most), meanings[name], fixed=False)
        for name, most in LINE_FAULTS.items()
    }
    silence: bool = declare(node, "silence", False, meanings["silence"], fixed=False)
    return BoardFaults(**numbers, silence=silence)


def _generation(name: str) -> Generation:
    if name not in GENERATIONS:
        raise ValueError(f"generation is {name!r}; choose {' or '.join(GENERATIONS)}")
    return GENERATIONS[name]
