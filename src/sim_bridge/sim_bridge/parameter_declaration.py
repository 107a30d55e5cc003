"""Declares parameters with description and range."""

from __future__ import annotations

from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node


def declare_number(
    node: Node, name: str, default: float, limits: tuple[float, float], description: str, fixed: bool = True
) -> float:
    """Declare a number between `limits` and return its value; `fixed` ones cannot be changed while the node runs."""
    bounds = [FloatingPointRange(from_value=limits[0], to_value=limits[1], step=0.0)]
    descriptor = ParameterDescriptor(description=description, floating_point_range=bounds, read_only=fixed)
    return node.declare_parameter(name, default, descriptor).value


def declare(
    node: Node, name: str, default: Any, description: str, integer: tuple[int, int] | None = None, fixed: bool = True
) -> Any:
    """Declare a parameter of any other kind, an integer with its range, and return its value."""
    bounds = [] if integer is None else [IntegerRange(from_value=integer[0], to_value=integer[1], step=1)]
    descriptor = ParameterDescriptor(description=description, integer_range=bounds, read_only=fixed)
    return node.declare_parameter(name, default, descriptor).value
