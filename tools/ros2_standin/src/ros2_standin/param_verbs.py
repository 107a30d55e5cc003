"""`ros2 param`: parameters of running nodes, through the services that every node has for them."""

import argparse
from typing import Any

from rcl_interfaces.msg import Parameter, ParameterDescriptor, ParameterType
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.parameter import Parameter as Typed
from rclpy.parameter import get_parameter_value, parameter_value_to_python

from . import VerbError, add_command, add_verb
from .graph import absolute, call_service, graph_node, wait_for


def _called(node_name: str, service_class: Any, service: str, **request: Any) -> Any:
    """Return the response of a node's parameter service; VerbError if there is no such node."""
    name = absolute(node_name)
    with graph_node() as node:
        nodes = node.get_node_names_and_namespaces
        if not wait_for(node, lambda: any(f"{space.rstrip('/')}/{known}" == name for known, space in nodes())):
            raise VerbError(f"Node not found: no node '{name}' runs; check its name and namespace")
        return call_service(node, service_class, f"{name}/{service}", service_class.Request(**request))


def _list(arguments: argparse.Namespace) -> int:
    names = _called(arguments.node_name, ListParameters, "list_parameters").result.names
    print("\n".join(f"  {name}" for name in sorted(names)))
    return 0


def _get(arguments: argparse.Namespace) -> int:
    name = arguments.parameter_name
    for value in _called(arguments.node_name, GetParameters, "get_parameters", names=[name]).values:
        if value.type != ParameterType.PARAMETER_NOT_SET:
            kind, _, many = _type_name(value.type).partition(" ")
            print(f"{kind.capitalize()} {'values are' if many else 'value is'}: {parameter_value_to_python(value)}")
            return 0
    raise _unknown(arguments.node_name, name)


def _set(arguments: argparse.Namespace) -> int:
    changed = Parameter(name=arguments.parameter_name, value=get_parameter_value(arguments.value))
    (result,) = _called(arguments.node_name, SetParameters, "set_parameters", parameters=[changed]).results
    if not result.successful:
        raise VerbError(f"Setting parameter failed: {arguments.parameter_name}: {result.reason}")
    print("Set parameter successful" + (f": {result.reason}" if result.reason else ""))
    return 0


def _describe(arguments: argparse.Namespace) -> int:
    names = arguments.parameter_names
    described = _called(arguments.node_name, DescribeParameters, "describe_parameters", names=names).descriptors
    found = {descriptor.name: descriptor for descriptor in described}
    for name in names:
        if name not in found:
            raise _unknown(arguments.node_name, name)
        print("\n".join(_lines(found[name])))
    return 0


def _lines(descriptor: ParameterDescriptor) -> list[str]:
    lines = [f"Parameter name: {descriptor.name}", f"  Type: {_type_name(descriptor.type)}"]
    lines += [f"  Description: {descriptor.description}"] if descriptor.description else []
    lines += ["  Constraints:"]
    lines += ["    Read only: true"] if descriptor.read_only else []
    for limits in [*descriptor.floating_point_range, *descriptor.integer_range]:
        lines += [f"    Min value: {limits.from_value}", f"    Max value: {limits.to_value}"]
        lines += [f"    Step: {limits.step}"] if limits.step else []
    extra = descriptor.additional_constraints
    return lines + ([f"    Additional constraints: {extra}"] if extra else [])


def _type_name(number: int) -> str:
    """Return upstream's name of a ParameterType, such as "double array"."""
    return Typed.Type(number).name.lower().replace("_", " ").replace("bool", "boolean")


def _unknown(node_name: str, name: str) -> VerbError:
    return VerbError(f"Parameter not set: '{node_name}' has no value of '{name}'; see `ros2 param list {node_name}`")


def add_commands(commands: Any) -> None:
    """Add `param`."""
    param = add_command(commands, "param")
    add_verb(param, "list", _list, "List the parameters of a node.", "node_name")
    add_verb(param, "get", _get, "Print the value of a parameter.", "node_name", "parameter_name")
    verb = add_verb(param, "set", _set, "Change a parameter of a node that runs.", "node_name", "parameter_name")
    verb.add_argument("value", help="the value in YAML, for example 0.1")
    verb = add_verb(param, "describe", _describe, "Print what parameters are, and their limits.", "node_name")
    verb.add_argument("parameter_names", nargs="+", help="the parameters")
