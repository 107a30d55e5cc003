"""The parameters of a real robot's bridge."""

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
    """Connection and loop of the bridge."""

    robot_file: str = parameter("", "YAML file of the robot; empty for the installed one")
    transport: str = parameter("wire", "transport of the packets; sdk: the vendor's library", choices=TRANSPORTS)
    generation: str = parameter("gen33", "wire format; A1 and Aliengo use gen33", choices=tuple(GENERATIONS))
    target: str = parameter("192.168.123.10", "address of the robot's motor board", name="network.target")
    port: int = parameter(8007, "UDP port of the motor board", (1, 65535), name="network.port")
    local_port: int = parameter(
        8080, "UDP port of this computer; 0 for any free port", (0, 65535), name="network.local_port"
    )
    io_rate: float = parameter(500.0, "rate of the loop [Hz]; each cycle sends one command", (100.0, 1000.0))
    publish_rate: float = parameter(
        500.0, "rate of joint_states and imu/data [Hz]; io_rate must be a whole multiple of it", (10.0, 1000.0)
    )
    interpolation_time: float = parameter(0.01, "maximum duration of the ramp to a new target [s]", (0.0, 0.1))
    remote_lost: str = parameter(
        "hold",
        "effect of a wireless remote lost while it drives; hold: warning, stop: trip",
        choices=get_args(RemoteLoss),
    )
    allow_recovery: bool = parameter(
        False, "allow ~/recover, which lets a fallen robot turn over; see docs/deployment.md"
    )
    realtime_priority: int = parameter(0, "SCHED_FIFO priority of the loop; 0: normal scheduling", (0, 99))
    lock_memory: bool = parameter(False, "lock this process in memory (mlockall)")
    cpu: int = parameter(-1, "CPU to which the loop is pinned; -1: any", (-1, 1023))

    def __post_init__(self) -> None:
        """Check that the rates fit together."""
        if self.io_rate < self.publish_rate or self.io_rate % self.publish_rate:
            raise ParameterError(
                f"parameter publish_rate is {self.publish_rate:g} Hz; io_rate = {self.io_rate:g} Hz must be a whole "
                "multiple of it"
            )
