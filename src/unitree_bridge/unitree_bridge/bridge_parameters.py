"""The parameters of a bridge: declared with description and range, read into one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node

from fcnet_ros.recorder_gate import DESCRIPTION, LONGEST_TIMEOUT
from unitree_lowlevel.codec import GENERATIONS

TRANSPORTS = ("wire", "sdk")
OF_EVERY_NODE = ("use_sim_time", "start_type_description_service")  # what rclpy and rcl declare themselves


class ParameterError(ValueError):
    """A parameter cannot be used; the message is one sentence that says what to do."""


@dataclass(frozen=True)
class Parameter:
    """A parameter: default, description and, for numbers, the range from lowest to highest."""

    default: Any
    description: str
    lowest: float = 0.0
    highest: float = 0.0

    @property
    def descriptor(self) -> ParameterDescriptor:
        """What ROS is told about it."""
        descriptor = ParameterDescriptor(description=self.description)
        if self.highest > self.lowest and isinstance(self.default, int):
            descriptor.integer_range = [IntegerRange(from_value=int(self.lowest), to_value=int(self.highest), step=1)]
        elif self.highest > self.lowest:
            descriptor.floating_point_range = [FloatingPointRange(from_value=self.lowest, to_value=self.highest)]
        return descriptor


PARAMETERS = {
    "robot_file": Parameter("", "YAML file of the robot; empty for the one that comes with the suite"),
    "transport": Parameter("wire", f"what carries the packets: {' or '.join(TRANSPORTS)} (the vendor's library)"),
    "generation": Parameter("gen33", f"format of the packets: {' or '.join(GENERATIONS)}; A1 and Aliengo speak gen33"),
    "network.target": Parameter("192.168.123.10", "address of the robot's motor board"),
    "network.port": Parameter(8007, "UDP port of the motor board", 1, 65535),
    "network.local_port": Parameter(8080, "UDP port of this computer; 0 takes any that is free", 0, 65535),
    "io_rate": Parameter(500.0, "turns of the loop per second [Hz]; each sends one command", 100.0, 1000.0),
    "publish_rate": Parameter(500.0, "joint_states and imu/data per second [Hz], at most io_rate", 10.0, 1000.0),
    "interpolation_time": Parameter(0.01, "longest ramp [s] from one target to the next", 0.0, 0.1),
    "auto_start": Parameter(
        False, "configure and activate without being asked; the joints stay damped until targets come"
    ),
    "recorder_timeout": Parameter(0.0, DESCRIPTION, 0.0, LONGEST_TIMEOUT),
    "realtime_priority": Parameter(0, "SCHED_FIFO priority of the loop; 0 leaves it to the ordinary scheduler", 0, 99),
    "lock_memory": Parameter(False, "keep this process in memory (mlockall)"),
    "cpu": Parameter(-1, "processor to which the loop is pinned; -1 leaves it to the scheduler", -1, 1023),
}


@dataclass(frozen=True)
class BridgeParameters:
    """The values of PARAMETERS."""

    robot_file: str
    transport: str
    generation: str
    target: tuple[str, int]
    local_port: int
    io_rate: float
    publish_rate: float
    interpolation_time: float
    recorder_timeout: float
    realtime_priority: int
    lock_memory: bool
    cpu: int

    @property
    def turns_per_state(self) -> int:
        """Turns of the loop for each published state."""
        return round(self.io_rate / self.publish_rate)


def declare_parameters(node: Node) -> None:
    """Declare every parameter. Raises ParameterError for one of the wrong type, out of range or not known."""
    _refuse_unknown(node)
    for name, parameter in PARAMETERS.items():
        try:
            node.declare_parameter(name, parameter.default, parameter.descriptor)
        except InvalidParameterTypeException as error:
            raise ParameterError(
                f"parameter {name} must be of the type of {parameter.default!r}; write it like that ({error})"
            ) from error
        except InvalidParameterValueException as error:
            raise ParameterError(
                f"parameter {name} must lie between {parameter.lowest:g} and {parameter.highest:g} ({error})"
            ) from error


def read_parameters(node: Node) -> BridgeParameters:
    """The present values. Raises ParameterError for those that do not exist or do not fit together."""
    values = {name: node.get_parameter(name).value for name in PARAMETERS}
    for name, known in (("transport", TRANSPORTS), ("generation", tuple(GENERATIONS))):
        if values[name] not in known:
            raise ParameterError(f"parameter {name} is {values[name]!r}; choose {' or '.join(known)}")
    turns_per_state = values["io_rate"] / values["publish_rate"]
    if turns_per_state < 1 or turns_per_state % 1:
        raise ParameterError(
            f"parameter publish_rate is {values['publish_rate']:g} Hz; io_rate = {values['io_rate']:g} Hz must be a "
            "whole multiple of it"
        )
    del values["auto_start"]
    network = {name.partition(".")[2]: values.pop(name) for name in PARAMETERS if name.startswith("network.")}
    return BridgeParameters(
        target=(network["target"].strip(), network["port"]), local_port=network["local_port"], **values
    )


def _refuse_unknown(node: Node) -> None:
    """A misspelt parameter shall not pass unnoticed; rclpy has no public name for what it was given."""
    given = {name for name in node._parameter_overrides if not name.startswith("qos_overrides.")}
    if unknown := sorted(given - set(PARAMETERS) - set(OF_EVERY_NODE)):
        raise ParameterError(
            f"unknown parameter {', '.join(unknown)} for {node.get_name()}; known are {', '.join(PARAMETERS)}"
        )
