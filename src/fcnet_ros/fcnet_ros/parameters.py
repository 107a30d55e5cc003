"""A node's parameters as one frozen dataclass: declared with description and range, read back as an instance.

    @dataclass(frozen=True)
    class Parameters:
        robot: str = parameter("aliengo", "robot to simulate, a file in config/robots")
        rate: float = parameter(50.0, "cycles per second [Hz]", (10.0, 500.0))

ROS checks types and ranges, this module checks choices, and the dataclass checks combinations in its __post_init__,
which raises ValueError.

Launch arguments are generated from these dataclasses. A package registers the dataclass of an executable as an entry
point, so that a launch file can describe and check a node that may not be installed:

    entry_points={"fcnet.parameters": ["mujoco_bridge = sim_bridge.parameters:BridgeParameters"]}
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import Field, dataclass, field, fields
from functools import cache, partial
from importlib.metadata import entry_points
from typing import Any, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, ParameterType, SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from fcnet_core.errors import ParameterError
from fcnet_core.files import expanded
from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.robot import load_robot

PARAMETER_GROUP = "fcnet.parameters"  # entry points: the parameter dataclass of an executable
RECORDER_TIMEOUT = 10.0  # [s] recorder_timeout of launches that record
CONTROL_RATES = (0.0, 500.0)  # [Hz] range of every control rate; 0 for the policy's, see policy_rate
SPEEDS = (0.05, 20.0)  # range of simulated or recorded seconds per second
SIM_TIME = "use_sim_time"
OF_EVERY_NODE = (SIM_TIME, "start_type_description_service")  # declared by rclpy and rcl
SIM_TIME_DESCRIPTION = "use the time on /clock, published by a simulator or a replay, instead of this computer's"

T = TypeVar("T")


def parameter(
    default: T,
    description: str,
    limits: tuple[float, float] | None = None,
    *,
    choices: Sequence[str] = (),
    name: str = "",
    changeable: bool = False,
    check: Callable[[str], object] | None = None,
) -> T:
    """Return the dataclass field of one parameter, of the type of `default`.

    limits: lowest and highest number. choices: allowed words, added to the description. name: in ROS, such as
    "network.port"; empty for the field's name. changeable: may be set while the node runs, even if the others are
    fixed. check: called by a launch file before it starts the node; raises ValueError for an invalid text.
    """
    text = f"{description}: {', '.join(choices)}" if choices else description
    descriptor = ParameterDescriptor(name=name, description=text)
    if limits is not None and isinstance(default, int):
        lowest, highest = map(int, limits)
        descriptor.integer_range = [IntegerRange(from_value=lowest, to_value=highest, step=1)]
    elif limits is not None:
        descriptor.floating_point_range = [FloatingPointRange(from_value=limits[0], to_value=limits[1])]
    facts = {"descriptor": descriptor, "limits": limits, "choices": choices, "changeable": changeable, "check": check}
    declared: T = field(default=default, metadata=facts)
    return declared


@dataclass(frozen=True)
class RecorderParameters:
    """Parameters of nodes that wait for a recorder."""

    recorder_timeout: float = parameter(
        0.0, "longest time [s] for which an automatic start waits until `ros2 bag record` subscribes", (0.0, 60.0)
    )


def policy_rate(robot: str, policy: str) -> float:
    """Return the rate [Hz] of a model file, by default of the one shipped for the robot. Raises FcnetError."""
    return load_model(policy or shipped_model(load_robot(robot).name)).card.interface.rate


@cache
def executable_parameters(executable: str) -> type[Any] | None:
    """Return the parameter dataclass of an executable; None if it, or a library that it imports, is not installed."""
    for entry in entry_points(group=PARAMETER_GROUP, name=executable):
        with suppress(ModuleNotFoundError):
            kind: type[Any] = entry.load()
            return kind
    return None


def default_parameters(kind: type[Any]) -> dict[str, Any]:
    """Return the default of every parameter of dataclass `kind` by its ROS name."""
    return {name: one.default for name, one in parameter_fields(kind).items()}


def declare_parameters(
    node: Node, kind: type[Any], *, read_only: bool = False, is_configured: Callable[[], bool] = lambda: False
) -> None:
    """Declare every parameter of dataclass `kind`.

    read_only: only the changeable ones may be set; is_configured: the same while it returns True, because the node has
    read the others. Raises ParameterError for a value of the wrong type, out of range or not among the choices, and for
    an unknown name.
    """
    parameters = parameter_fields(kind)
    # Misspelt parameters are refused. rclpy has no public name for the given ones.
    given = {name for name in node._parameter_overrides if not name.startswith("qos_overrides.")}
    if unknown := ", ".join(sorted(given - set(parameters) - set(OF_EVERY_NODE))):
        raise ParameterError(f"unknown parameter {unknown} for {node.get_name()}; known are {', '.join(parameters)}")
    sim_time = ParameterDescriptor(type=ParameterType.PARAMETER_BOOL, description=SIM_TIME_DESCRIPTION)
    node.set_descriptor(SIM_TIME, sim_time)
    node.add_on_set_parameters_callback(partial(_check, parameters, is_configured))  # also called by declare_parameter
    for name, one in parameters.items():
        descriptor = copy(one.metadata["descriptor"])
        descriptor.read_only = read_only and not one.metadata["changeable"]
        limits, choices = one.metadata["limits"], one.metadata["choices"]
        try:
            node.declare_parameter(name, one.default, descriptor)
        except InvalidParameterTypeException as error:
            expected = f"be of the type of {one.default!r}; write it like that"
            raise ParameterError(f"parameter {name} must {expected} ({error})") from error
        except InvalidParameterValueException as error:
            expected = f"lie between {limits[0]:g} and {limits[1]:g}" if limits else f"be {' or '.join(choices)}"
            raise ParameterError(f"parameter {name} must {expected} ({error})") from error


def read_parameters(node: Node, kind: type[T]) -> T:
    """Return the current values, with home folders in paths. Raises FcnetError for an invalid combination."""
    values = {one.name: node.get_parameter(name).value for name, one in parameter_fields(kind).items()}
    return kind(**{name: expanded(value) if isinstance(value, str) else value for name, value in values.items()})


def declare_fixed_parameters(node: Node, kind: type[T]) -> T:
    """Declare the parameters of a node that reads them once, at start; return their values. Raises ParameterError."""
    declare_parameters(node, kind, read_only=True)
    return read_parameters(node, kind)


def parameter_fields(kind: type[Any]) -> dict[str, Field[Any]]:
    """Return the fields of dataclass `kind` by the ROS names of their parameters; metadata: those of `parameter`."""
    return {one.metadata["descriptor"].name or one.name: one for one in fields(kind)}


def _check(
    known: Mapping[str, Field[Any]], is_configured: Callable[[], bool], changes: Sequence[Parameter]
) -> SetParametersResult:
    """Refuse values that are no choice, and what a configured node has read; ROS checks types and ranges."""
    problems = []
    for change in changes:
        name, facts = change.name, known[change.name].metadata if change.name in known else {}
        if (choices := facts.get("choices")) and change.value not in choices:
            problems.append(f"parameter {name} is {change.value!r}; choose {' or '.join(choices)}")
        is_fixed = name == SIM_TIME or not facts.get("changeable", True)  # stamps of another clock are refused
        if is_fixed and is_configured():
            problems.append(f"{name} is read when the node is configured; deactivate and clean up the node first")
    return SetParametersResult(successful=not problems, reason="; ".join(problems))
