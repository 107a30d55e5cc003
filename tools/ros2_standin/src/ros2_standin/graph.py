"""A short-lived node that looks at the running system, and the types and values of its messages."""

from __future__ import annotations

import array
import contextlib
import importlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import rclpy
import yaml
from rclpy.node import Node

from .participant_profile import participant_profile
from .verb import VerbError

DISCOVERY_SECONDS = 5.0
RESPONSE_SECONDS = 30.0


@contextlib.contextmanager
def graph_node(name: str = "", arguments: Sequence[str] = (), queue: int | None = None) -> Iterator[Node]:
    """Give a node with `name`, or one of its own, and ROS arguments such as remappings.

    queue: see participant_profile.
    """
    with participant_profile(queue):
        rclpy.init(args=[], signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
        node = rclpy.create_node(
            name or f"ros2_standin_{os.getpid()}",
            cli_args=list(arguments),
            enable_rosout=False,
            start_parameter_services=False,
        )
    try:
        yield node
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def wait_for_discovery(node: Node, quiet: float = 1.5) -> None:
    """Let other nodes become known, until nothing new has come for `quiet` seconds; there is no daemon that knows them.

    Nodes on a busy machine may be late: while there seems to be nobody, it waits for DISCOVERY_SECONDS.
    """
    known, begun = -1, time.monotonic()
    changed = begun
    while time.monotonic() < (changed + quiet if len(node.get_node_names()) > 1 else begun + DISCOVERY_SECONDS):
        rclpy.spin_once(node, timeout_sec=0.1)
        names = len(node.get_topic_names_and_types()) + len(node.get_service_names_and_types())
        if names != known:
            known, changed = names, time.monotonic()


def call_service(node: Node, service_class: Any, name: str, request: Any) -> Any:
    """Return the response; VerbError if nobody offers the service or no response comes."""
    client = node.create_client(service_class, name)
    if not client.wait_for_service(timeout_sec=DISCOVERY_SECONDS):
        raise VerbError(f"nobody offers the service '{name}': check its name, and whether its node runs")
    future = client.call_async(request)
    rclpy.spin_until_future_complete(node, future, timeout_sec=RESPONSE_SECONDS)
    if not future.done():
        raise VerbError(f"the service '{name}' has not responded within {RESPONSE_SECONDS:g} s")
    return future.result()


def absolute(name: str) -> str:
    """Return the name with its leading slash."""
    return name if name.startswith("/") else f"/{name}"


def load_interface(name: str, kind: str) -> Any:
    """Return the class of `name`, for example geometry_msgs/msg/Twist; `kind` is "msg" or "srv"."""
    parts = name.split("/")
    if len(parts) == 2:
        parts.insert(1, kind)
    if len(parts) != 3 or parts[1] != kind:
        raise VerbError(f"'{name}' is no type: expected PACKAGE/{kind}/NAME")
    try:
        return getattr(importlib.import_module(f"{parts[0]}.{kind}"), parts[2])
    except (ImportError, AttributeError) as error:
        raise VerbError(f"type '{name}' is not installed: check its name") from error


def as_plain(value: Any) -> Any:
    """Return dictionaries, lists and scalars for a message or the value of a field."""
    if hasattr(value, "get_fields_and_field_types"):
        return {name: as_plain(getattr(value, name)) for name in value.get_fields_and_field_types()}
    if isinstance(value, (array.array, np.ndarray)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    return value


def fill_message(message: Any, text: str) -> None:
    """Set the fields named in the YAML `text`; VerbError for an unknown field or a wrong value."""
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise VerbError(f'{text!r} is no YAML: write the fields as "{{name: value}}"') from error
    _set_fields(message, {} if values is None else values)


def _set_fields(message: Any, values: Any) -> None:
    types = message.get_fields_and_field_types()
    name_of_type = type(message).__name__
    if not isinstance(values, dict):
        raise VerbError(f"{name_of_type} takes fields as {{name: value}}, not {values!r}")
    for name, value in values.items():
        if name not in types:
            raise VerbError(f"{name_of_type} has no field '{name}'; it has: {', '.join(types)}")
        try:
            setattr(message, name, _field_value(getattr(message, name), types[name], value))
        except (AssertionError, TypeError, ValueError) as error:
            raise VerbError(f"field '{name}' of {name_of_type} cannot be {value!r}: it is a {types[name]}") from error


def _field_value(current: Any, type_name: str, value: Any) -> Any:
    if hasattr(current, "get_fields_and_field_types"):
        _set_fields(current, value)
        return current
    if type_name in ("float", "double"):
        return float(value)
    if isinstance(value, list) and any(kind in type_name for kind in ("float", "double")):
        return [float(item) for item in value]
    return value
