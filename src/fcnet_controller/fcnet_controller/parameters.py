"""The controller's parameters, and the core that is made from them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node

import fcnet_core
from fcnet_controller.control_core import ControlCore, ControlSettings
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.robot import load_robot
from fcnet_core.runtime import load_policy
from fcnet_ros.recorder_gate import DESCRIPTION, LONGEST_TIMEOUT

# The controller's parameters: declared with description and range, read into one object.

RUNTIMES = ("auto", "numba", "numpy", "onnx")


class ParameterError(ValueError):
    """A parameter cannot be used; the message is one sentence that says what to do."""


@dataclass(frozen=True)
class Parameter:
    """A parameter: default, description and, for numbers, the range from lowest to highest."""

    default: Any
    description: str
    lowest: float = 0.0
    highest: float = 0.0


PARAMETERS = {
    "robot": Parameter("aliengo", "robot to control: the name of a file in config/robots"),
    "policy": Parameter("", "model file of the policy; empty for the one that comes with the suite for this robot"),
    "runtime": Parameter("auto", f"what computes the policy: {', '.join(RUNTIMES)}; auto is numba if installed"),
    "control_rate": Parameter(50.0, "control cycles per second [Hz], a whole multiple of the policy's", 10.0, 500.0),
    "cmd_vel_timeout": Parameter(0.5, "age [s] from which a cmd_vel counts as zero: the robot stands", 0.05, 5.0),
    "state_timeout": Parameter(
        0.2, "age [s] from which a state is a fault; a control loop later than this is one, too", 0.01, 1.0
    ),
    "use_stamped_cmd_vel": Parameter(False, "cmd_vel is a TwistStamped instead of a Twist"),
    "auto_start": Parameter(False, "configure, activate, stand up and walk without being asked; for simulation"),
    "auto_activate": Parameter(
        False, "configure and activate without being asked, and stay passive even with auto_start; for a robot"
    ),
    "recorder_timeout": Parameter(0.0, f"{DESCRIPTION}; with auto_start and auto_activate", 0.0, LONGEST_TIMEOUT),
    "real_time_factor": Parameter(
        1.0, "robot's seconds per second: the rate is multiplied by it, to keep pace with a simulator", 0.05, 20.0
    ),
    "follows_targets": Parameter(
        True, "false where the states are a recording: joints that do not follow their targets are no fault then"
    ),
    "stand_up_time": Parameter(2.0, "duration [s] of standing up", 0.5, 10.0),
    "lie_down_time": Parameter(2.0, "duration [s] of lying down", 0.5, 10.0),
    "stance_width": Parameter(0.0, "change of the stance width as a fraction of it", -0.5, 0.5),
    "foot_clearance": Parameter(0.0, "change of the height [m] to which a swinging foot is lifted", -0.05, 0.15),
    "stride_frequency": Parameter(0.0, "change of the stride frequency [Hz]", -1.0, 1.0),
}
STYLE = ("stance_width", "foot_clearance", "stride_frequency")


@dataclass(frozen=True)
class ControllerParameters:
    """The values of PARAMETERS, fields of the same names."""

    robot: str
    policy: str
    runtime: str
    control_rate: float
    cmd_vel_timeout: float
    state_timeout: float
    use_stamped_cmd_vel: bool
    auto_start: bool
    auto_activate: bool
    recorder_timeout: float
    real_time_factor: float
    follows_targets: bool
    stand_up_time: float
    lie_down_time: float
    stance_width: float
    foot_clearance: float
    stride_frequency: float

    @property
    def settings(self) -> ControlSettings:
        """The rates and times among them."""
        return ControlSettings(
            control_rate=self.control_rate,
            state_timeout=self.state_timeout,
            command_timeout=self.cmd_vel_timeout,
            stand_up_time=self.stand_up_time,
            lie_down_time=self.lie_down_time,
            follows_targets=self.follows_targets,
        )


def declare_parameters(node: Node) -> None:
    """Declare every parameter. Raises ParameterError for a value of the wrong type or out of range."""
    for name, parameter in PARAMETERS.items():
        limits = FloatingPointRange(from_value=parameter.lowest, to_value=parameter.highest)
        bounded = parameter.highest > parameter.lowest
        descriptor = ParameterDescriptor(
            description=parameter.description, floating_point_range=[limits] if bounded else []
        )
        try:
            node.declare_parameter(name, parameter.default, descriptor)
        except InvalidParameterTypeException as error:
            raise ParameterError(
                f"parameter {name} must be of the type of {parameter.default!r}; write it like that ({error})"
            ) from error
        except InvalidParameterValueException as error:
            raise ParameterError(
                f"parameter {name} must lie between {parameter.lowest:g} and {parameter.highest:g} ({error})"
            ) from error


def read_parameters(node: Node) -> ControllerParameters:
    """The present values. Raises ParameterError for a runtime that does not exist."""
    values = {field.name: node.get_parameter(field.name).value for field in fields(ControllerParameters)}
    if values["runtime"] not in RUNTIMES:
        raise ParameterError(f"parameter runtime is {values['runtime']!r}; choose one of {', '.join(RUNTIMES)}")
    return ControllerParameters(**values)


# Makes a ready controller core from its parameters: loads, checks and warms up everything that may fail or be slow.

MODEL_FOLDER = Path(fcnet_core.__file__).parent / "models"
Core = TypeVar("Core", bound=ControlCore)


def load_core(parameters: ControllerParameters, kind: type[Core]) -> Core:
    """A core of this kind for these parameters, its policy compiled and cold.

    Raises ValueError (or a kind of it) with one sentence when robot file, model and parameters do not fit together.
    """
    robot = load_robot(parameters.robot)
    model = load_model(policy_path(robot.name, parameters.policy))
    check_robot(model, robot)
    policy = load_policy(model, parameters.runtime)
    core = kind(robot, model, policy, parameters.settings)
    core.commands.set_style(parameters.stance_width, parameters.foot_clearance, parameters.stride_frequency)
    policy.warm_up()  # before the robot depends on it
    return core


def policy_path(robot: str, policy: str) -> Path:
    """The model file called `policy`; empty for the one that comes with the suite for the robot of that name."""
    return Path(policy) if policy else MODEL_FOLDER / f"{robot}.safetensors"


