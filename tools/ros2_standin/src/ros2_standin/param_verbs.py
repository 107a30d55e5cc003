"""`ros2 param`: parameters of running nodes, through the services that every node has for them."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rcl_interfaces.msg import Parameter, ParameterDescriptor, ParameterType, ParameterValue
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.node import Node
from rclpy.parameter import get_parameter_value, parameter_value_to_python

from . import VerbError, add_command, add_verb
from .graph import absolute, call_service, graph_node, wait_for_node

# Upstream's name of a type, and its text before a value of it.
TYPES = {
    ParameterType.PARAMETER_NOT_SET: ("not set", "Parameter not set."),
    ParameterType.PARAMETER_BOOL: ("boolean", "Boolean value is:"),
    ParameterType.PARAMETER_INTEGER: ("integer", "Integer value is:"),
    ParameterType.PARAMETER_DOUBLE: ("double", "Double value is:"),
    ParameterType.PARAMETER_STRING: ("string", "String value is:"),
    ParameterType.PARAMETER_BYTE_ARRAY: ("byte array", "Byte values are:"),
    ParameterType.PARAMETER_BOOL_ARRAY: ("boolean array", "Boolean values are:"),
    ParameterType.PARAMETER_INTEGER_ARRAY: ("integer array", "Integer values are:"),
    ParameterType.PARAMETER_DOUBLE_ARRAY: ("double array", "Double values are:"),
    ParameterType.PARAMETER_STRING_ARRAY: ("string array", "String values are:"),
}


def _list(arguments: argparse.Namespace) -> int:
    with graph_node() as node:
        print("\n".join(f"  {name}" for name in _names(node, _found(node, arguments.node_name))))
    return 0


def _get(arguments: argparse.Namespace) -> int:
    with graph_node() as node:
        name = _found(node, arguments.node_name)
        _check_names(node, name, [arguments.parameter_name])
        request = GetParameters.Request(names=[arguments.parameter_name])
        (value,) = call_service(node, GetParameters, f"{name}/get_parameters", request).values or [ParameterValue()]
    shown = () if value.type == ParameterType.PARAMETER_NOT_SET else (parameter_value_to_python(value),)
    print(TYPES[value.type][1], *shown)
    return 0


def _set(arguments: argparse.Namespace) -> int:
    with graph_node() as node:
        name = _found(node, arguments.node_name)
        _check_names(node, name, [arguments.parameter_name])
        changed = Parameter(name=arguments.parameter_name, value=get_parameter_value(arguments.value))
        request = SetParameters.Request(parameters=[changed])
        (result,) = call_service(node, SetParameters, f"{name}/set_parameters", request).results
    reason = f": {result.reason}" if result.reason else ""
    if not result.successful:
        print(f"Setting parameter failed{reason}", file=sys.stderr)
        return 1
    print(f"Set parameter successful{reason}")
    return 0


def _describe(arguments: argparse.Namespace) -> int:
    with graph_node() as node:
        name = _found(node, arguments.node_name)
        _check_names(node, name, arguments.parameter_names)
        for descriptor in _descriptors(node, name, arguments.parameter_names):
            print("\n".join(_lines(descriptor)))
    return 0


def _lines(descriptor: ParameterDescriptor) -> list[str]:
    lines = [f"Parameter name: {descriptor.name}", f"  Type: {TYPES[descriptor.type][0]}"]
    lines += [f"  Description: {descriptor.description}"] if descriptor.description else []
    lines += ["  Constraints:"]
    lines += ["    Read only: true"] if descriptor.read_only else []
    for limits in [*descriptor.floating_point_range, *descriptor.integer_range]:
        lines += [f"    Min value: {limits.from_value}", f"    Max value: {limits.to_value}"]
        lines += [f"    Step: {limits.step}"] if limits.step else []
    extra = descriptor.additional_constraints
    return lines + ([f"    Additional constraints: {extra}"] if extra else [])


def _found(node: Node, name: str) -> str:
    """Return the absolute name of a running node; VerbError if there is none."""
    if not wait_for_node(node, absolute(name)):
        raise VerbError(f"Node not found: no node '{absolute(name)}' runs; check its name and namespace")
    return absolute(name)


def _names(node: Node, name: str) -> list[str]:
    """Return the names of all parameters of a node, in order."""
    return sorted(call_service(node, ListParameters, f"{name}/list_parameters", ListParameters.Request()).result.names)


def _check_names(node: Node, name: str, parameters: list[str]) -> None:
    known = _names(node, name)
    if unknown := [parameter for parameter in parameters if parameter not in known]:
        raise VerbError(
            f"Parameter not set: node '{name}' has no parameter '{unknown[0]}'; `ros2 param list {name}` shows its own"
        )


def _descriptors(node: Node, name: str, parameters: list[str]) -> list[ParameterDescriptor]:
    request = DescribeParameters.Request(names=parameters)
    return list(call_service(node, DescribeParameters, f"{name}/describe_parameters", request).descriptors)


def add_commands(commands: Any) -> None:
    """Add `param`."""
    param = add_command(commands, "param")
    verb = add_verb(param, "list", _list, "List the parameters of a node.")
    verb.add_argument("node_name", help="the node")

    verb = add_verb(param, "get", _get, "Print the value of a parameter.")
    verb.add_argument("node_name", help="the node")
    verb.add_argument("parameter_name", help="the parameter")

    verb = add_verb(param, "set", _set, "Change a parameter of a node that runs.")
    verb.add_argument("node_name", help="the node")
    verb.add_argument("parameter_name", help="the parameter")
    verb.add_argument("value", help="the value in YAML, for example 0.1")

    verb = add_verb(param, "describe", _describe, "Print what parameters are, and their limits.")
    verb.add_argument("node_name", help="the node")
    verb.add_argument("parameter_names", nargs="+", help="the parameters")
