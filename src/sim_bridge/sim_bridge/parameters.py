"""The parameters of this package's nodes. Launch files read them, so this module must not import MuJoCo."""

from dataclasses import dataclass
from functools import cached_property
from typing import get_args

from fcnet_core.errors import FcnetError, ParameterError
from fcnet_core.files import check_readable, check_writable
from fcnet_core.model_file import load_model
from fcnet_core.robot import load_robot
from fcnet_ros.hardware import HardwareParameters
from fcnet_ros.parameters import CONTROL_RATES, SPEEDS, RecorderParameters, parameter, policy_rate
from quadruped_sim.physics.body import LONGEST_STEP, time_step
from quadruped_sim.physics.placement import PLACES, StartPose
from quadruped_sim.physics.terrain import TERRAINS, named_terrain
from sim_bridge.lockstep import MODES
from unitree_lowlevel.codec import GENERATIONS
from unitree_lowlevel.fake_board.faults import fault_fields

PUSH_DIRECTIONS = {"random": None, "forward": 0.0, "left": 1.5707963, "backward": 3.1415927, "right": -1.5707963}
FAULT_MEANINGS = {fault.name: fault.metadata["help"] for fault in fault_fields()}
LINE = ("delay", "jitter", "loss", "duplicates", "reordering", "corruption", "silence")  # faults set by parameters


def _line_fault(name: str) -> float:
    return parameter(0.0, FAULT_MEANINGS[name], (0.0, 1.0), changeable=True)


@dataclass(frozen=True)
class SimulationParameters:
    """What is simulated."""

    robot: str = parameter("aliengo", "robot to simulate, a file in config/robots")
    terrain: str = parameter("flat", f"ground: {', '.join(TERRAINS)}, or a YAML file of one", check=named_terrain)
    start_x: float = parameter(0.0, "start position [m]; slopes and stairs start at 1.5", PLACES["x"])
    start_y: float = parameter(0.0, "start position, to the left [m]", PLACES["y"])
    start_heading: float = parameter(0.0, "start heading [rad]", PLACES["heading"])
    sensor_noise: float = parameter(1.0, "errors of the sensors as a multiple of a real board's", (0.0, 10.0))
    seed: int = parameter(0, "seed of all random numbers", (0, 2**31 - 1))
    viewer: bool = parameter(False, "open MuJoCo's window; needs a display")
    push_speed: float = parameter(0.5, "change of the trunk's velocity by ~/push [m/s]", (0.0, 3.0), changeable=True)
    push_direction: str = parameter("random", "direction of ~/push", choices=tuple(PUSH_DIRECTIONS), changeable=True)
    push_height: float = parameter(0.0, "height of ~/push above the trunk [m]", (-0.2, 0.2), changeable=True)


@dataclass(frozen=True)
class BridgeParameters(SimulationParameters, HardwareParameters):
    """The ROS parameters of mujoco_bridge."""

    start: str = parameter("lying", "pose after start and reset", choices=get_args(StartPose))
    real_time_factor: float = parameter(1.0, "simulated seconds per second", SPEEDS)
    policy: str = parameter("", "model file whose rate is simulated; empty for the shipped one", check=load_model)
    command_timeout: float = parameter(0.1, "age [s] of a command from which joints are damped", (0.01, 5.0))
    patience: float = parameter(0.0, "real time [s] for which the simulation waits for a late controller", (0.0, 10.0))
    clock: bool = parameter(False, "publish /clock, and stamp states in simulated time")
    lockstep: str = parameter("never", "wait for each period's targets, auto: if too slow; needs clock", choices=MODES)
    control_rate: float = parameter(0.0, "control rate of the controller [Hz]; 0 for the policy's", CONTROL_RATES)
    lockstep_timeout: float = parameter(120.0, "real time [s] to wait in lockstep before the end", (1.0, 3600.0))
    auto_start: bool = parameter(True, "configure and activate at the start")

    def __post_init__(self) -> None:
        if self.lockstep != "never" and not self.clock:
            raise ParameterError(f"lockstep {self.lockstep} needs simulated time; add clock:=true")

    @cached_property
    def period(self) -> float:
        """Control period [s]. A robot without a policy has none: LONGEST_STEP, unless lockstep needs one."""
        try:
            return 1.0 / (self.control_rate or policy_rate(self.robot, self.policy))
        except FcnetError:
            if self.policy or self.lockstep != "never":
                raise
            return LONGEST_STEP

    @property
    def time_step(self) -> float:
        """Time step of the physics [s], in each of which a state is published."""
        return time_step(self.period)


@dataclass(frozen=True)
class BoardParameters(SimulationParameters, RecorderParameters):
    """The ROS parameters of mujoco_board."""

    address: str = parameter("127.0.0.1", "address to listen at")
    port: int = parameter(8007, "UDP port to listen at, 0 for a free one", (0, 65535))
    generation: str = parameter("gen33", "wire format", choices=tuple(GENERATIONS))
    delay: float = _line_fault("delay")
    jitter: float = _line_fault("jitter")
    loss: float = _line_fault("loss")
    duplicates: float = _line_fault("duplicates")
    reordering: float = _line_fault("reordering")
    corruption: float = _line_fault("corruption")
    silence: bool = parameter(False, FAULT_MEANINGS["silence"], changeable=True)


@dataclass(frozen=True)
class PlaybackParameters:
    """The ROS parameters of isaac_playback."""

    robot: str = parameter("aliengo", "robot of the recording and of the policy", check=load_robot)
    recording: str = parameter("", "file to play: .rollout, .npz, .pt (docs/isaac_gym.md)", check=check_readable)
    mapping: str = parameter("", "YAML file with the names of the recording's arrays", check=check_readable)
    live: str = parameter("", "host:port to receive the states of a running simulation instead")
    rate: float = parameter(1.0, "recorded seconds per second", SPEEDS)
    loop: bool = parameter(False, "restart at the end")
    wait_for_controller: bool = parameter(True, "play a standing robot until the controller walks, then the recording")
    policy: str = parameter("", "model file of the controller; empty for the shipped one", check=load_model)
    control_rate: float = parameter(0.0, "control rate of the controller [Hz]; 0 for the policy's", CONTROL_RATES)
    publish_commands: bool = parameter(True, "send the recorded commands as cmd_vel and cmd_pose")
    summary: str = parameter("", "JSON file to write the comparison to", check=check_writable)

    def __post_init__(self) -> None:
        if bool(self.recording) == bool(self.live):
            raise ValueError("give either a recording (recording:=FILE) or the address of a live one (live:=HOST:PORT)")
