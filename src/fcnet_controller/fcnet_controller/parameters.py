"""The controller's parameters, and the model file that they choose."""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from fcnet_core.control.command import VELOCITY_TIMEOUT
from fcnet_core.files import check_writable
from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.policy import RuntimeName
from fcnet_core.robot import load_robot
from fcnet_ros.parameters import CONTROL_RATES, SPEEDS, RecorderParameters, parameter
from fcnet_ros.targets import WAY, WAYS


@dataclass(frozen=True)
class ControllerParameters(RecorderParameters):
    """The ROS parameters of the controller node."""

    robot: str = parameter("aliengo", "robot to control: the name of a file in config/robots")
    policy: str = parameter("", "model file of the policy; empty for the one shipped for this robot", check=load_model)
    runtime: RuntimeName = parameter(  # noqa: RUF009 - a str, which ruff does not see
        "auto", "runtime of the policy; auto is numba if the policy has a compiled step", choices=get_args(RuntimeName)
    )
    control_rate: float = parameter(0.0, "control rate [Hz], multiple of the policy rate; 0: the same", CONTROL_RATES)
    cmd_vel_timeout: float = parameter(VELOCITY_TIMEOUT, "age [s] from which a cmd_vel counts as zero", (0.05, 5.0))
    state_timeout: float = parameter(0.2, "age [s] of a state, or lateness of the loop, that is a fault", (0.01, 1.0))
    use_stamped_cmd_vel: bool = parameter(False, "cmd_vel is a TwistStamped instead of a Twist")
    auto_start: bool = parameter(False, "configure, activate, stand up and walk at the start; for simulation")
    auto_activate: bool = parameter(False, "configure, activate and stay passive, despite auto_start; for real robots")
    real_time_factor: float = parameter(1.0, "robot's seconds per second, a factor of the control rate", SPEEDS)
    simulated_time: bool = parameter(False, "run one cycle per control period of the states' stamps; for simulators")
    follows_targets: bool = parameter(True, "joints that do not follow targets are a fault; false for a recording")
    targets_over: str = parameter("dds", WAY, choices=WAYS)
    realtime_priority: int = parameter(0, "SCHED_FIFO priority of the loop, below the bridge's; 0 for none", (0, 98))
    lock_memory: bool = parameter(False, "keep this process in memory (mlockall)")
    stand_up_time: float = parameter(2.0, "duration [s] of standing up", (0.5, 10.0))
    lie_down_time: float = parameter(2.0, "duration [s] of lying down", (0.5, 10.0))
    stance_width: float = parameter(0.0, "change of the stance width as a fraction of it", (-0.5, 0.5), changeable=True)
    foot_clearance: float = parameter(0.0, "change of the height [m] of swinging feet", (-0.05, 0.15), changeable=True)
    stride_frequency: float = parameter(0.0, "change of the stride frequency [Hz]", (-1.0, 1.0), changeable=True)


@dataclass(frozen=True)
class ReplayParameters:
    """The ROS parameters of the replay node."""

    robot: str = parameter("", "robot of the recording; empty for the robot named in the bag", check=load_robot)
    policy: str = parameter("", "model file; empty for the recorded one", check=load_model)
    bag: str = parameter("", "the recorded bag: its folder, or one file")
    rate: float = parameter(1.0, "recorded seconds per second", SPEEDS)
    namespace: str = parameter("", "namespace of the robot in the bag; needed only if there are several")
    loop: bool = parameter(False, "restart at the end")
    summary: str = parameter("", "JSON file to write the result to", check=check_writable)


def policy_path(robot: str, policy: str) -> Path:
    """Return the path of a model file; for an empty `policy` the one that the suite ships for the robot."""
    return Path(policy) if policy else shipped_model(robot)
