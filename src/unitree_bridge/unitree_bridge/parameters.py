"""The parameters of a real robot's bridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from fcnet_core.errors import ParameterError
from fcnet_ros.hardware import HardwareParameters
from fcnet_ros.parameters import parameter
from unitree_lowlevel.codec import GENERATIONS
from unitree_lowlevel.safety.monitor import RemoteLoss
from unitree_lowlevel.transport import TRANSPORTS


@dataclass(frozen=True)
class BridgeParameters(HardwareParameters):
    """What the bridge connects to, and how its loop runs."""

    robot_file: str = parameter("", "YAML file of the robot; empty for the one that comes with the suite")
    transport: str = parameter("wire", "what carries the packets, sdk is the vendor's library", choices=TRANSPORTS)
    generation: str = parameter("gen33", "format of the packets; A1 and Aliengo use gen33", choices=tuple(GENERATIONS))
    target: str = parameter("192.168.123.10", "address of the robot's motor board", name="network.target")
    port: int = parameter(8007, "UDP port of the motor board", (1, 65535), name="network.port")
    local_port: int = parameter(
        8080, "UDP port of this computer; 0 takes any that is free", (0, 65535), name="network.local_port"
    )
    io_rate: float = parameter(500.0, "cycles of the loop per second [Hz]; each sends one command", (100.0, 1000.0))
    publish_rate: float = parameter(
        500.0, "joint_states and imu/data per second [Hz]; io_rate is a whole multiple of it", (10.0, 1000.0)
    )
    interpolation_time: float = parameter(0.01, "longest ramp [s] from one target to the next", (0.0, 0.1))
    remote_lost: str = parameter(
        "hold", "when the wireless remote is lost while it drives: hold warns, stop trips", choices=get_args(RemoteLoss)
    )
    allow_recovery: bool = parameter(
        False,
        "let a robot that has fallen turn over when ~/recover requests it; docs/deployment.md says what that takes",
    )
    realtime_priority: int = parameter(
        0, "SCHED_FIFO priority of the loop; 0 leaves it to the ordinary scheduler", (0, 99)
    )
    lock_memory: bool = parameter(False, "keep this process in memory (mlockall)")
    cpu: int = parameter(-1, "processor to which the loop is pinned; -1 leaves it to the scheduler", (-1, 1023))

    def __post_init__(self) -> None:
        """Check that the rates fit together."""
        if self.io_rate < self.publish_rate or self.io_rate % self.publish_rate:
            raise ParameterError(
                f"parameter publish_rate is {self.publish_rate:g} Hz; io_rate = {self.io_rate:g} Hz must be a whole "
                "multiple of it"
            )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the motor board."""
        return self.target.strip(), self.port
