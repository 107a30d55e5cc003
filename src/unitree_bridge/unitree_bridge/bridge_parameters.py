"""The parameters of a bridge to a Unitree robot."""

from __future__ import annotations

from dataclasses import dataclass

from fcnet_ros.parameters import ParameterError, parameter
from fcnet_ros.recorder_gate import DESCRIPTION, LONGEST_TIMEOUT
from unitree_lowlevel.codec import GENERATIONS

TRANSPORTS = ("wire", "sdk")


@dataclass(frozen=True)
class BridgeParameters:
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
    auto_start: bool = parameter(
        False, "configure and activate without being asked; the joints stay damped until targets come"
    )
    recorder_timeout: float = parameter(0.0, DESCRIPTION, (0.0, LONGEST_TIMEOUT))
    realtime_priority: int = parameter(
        0, "SCHED_FIFO priority of the loop; 0 leaves it to the ordinary scheduler", (0, 99)
    )
    lock_memory: bool = parameter(False, "keep this process in memory (mlockall)")
    cpu: int = parameter(-1, "processor to which the loop is pinned; -1 leaves it to the scheduler", (-1, 1023))

    def __post_init__(self) -> None:
        """Check that the rates fit together."""
        if self.cycles_per_state < 1 or self.io_rate % self.publish_rate:
            raise ParameterError(
                f"parameter publish_rate is {self.publish_rate:g} Hz; io_rate = {self.io_rate:g} Hz must be a whole "
                "multiple of it"
            )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the motor board."""
        return self.target.strip(), self.port

    @property
    def cycles_per_state(self) -> int:
        """Cycles of the loop for each published state."""
        return round(self.io_rate / self.publish_rate)
