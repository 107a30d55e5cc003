"""Types of messages and services by name, their values as YAML, their definitions and type hashes."""

import array
import importlib
from functools import cache
from typing import Any

import numpy as np
import yaml

from . import VerbError


def load_interface(name: str, kind: str) -> Any:
    """Return the class of `name`, for example geometry_msgs/msg/Twist; `kind` is "msg" or "srv"."""
    parts = name.split("/")
    if len(parts) < 2 or parts[1:-1] not in ([], [kind]):
        raise VerbError(f"'{name}' is not a type: expected PACKAGE/{kind}/NAME")
    try:
        return getattr(importlib.import_module(f"{parts[0]}.{kind}"), parts[-1])
    except (ImportError, AttributeError, ValueError) as error:
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
        raise VerbError(f'{text!r} is not YAML: write the fields as "{{name: value}}"') from error
    _set_fields(message, {} if values is None else values)


def _set_fields(message: Any, values: Any) -> None:
    types = message.get_fields_and_field_types()
    name_of_type = type(message).__name__
    if not isinstance(values, dict):
        raise VerbError(f"{name_of_type} takes fields as {{name: value}}, not {values!r}")
    for name, value in values.items():
        if name not in types:
            raise VerbError(f"{name_of_type} has no field '{name}'; it has: {', '.join(types)}")
        current = getattr(message, name)
        if hasattr(current, "get_fields_and_field_types"):
            _set_fields(current, value)
            continue
        decimal = "float" in types[name] or "double" in types[name]  # YAML reads 1 as an integer
        try:
            setattr(message, name, np.asarray(value, np.float64).tolist() if decimal else value)
        except (AssertionError, TypeError, ValueError) as error:
            raise VerbError(f"field '{name}' of {name_of_type} cannot be {value!r}: it is a {types[name]}") from error


@cache
def _known_types() -> Any:
    from rosbags.typesys import Stores, get_typestore

    return get_typestore(Stores.ROS2_JAZZY)


def message_definition(name: str) -> tuple[str, str]:
    """Return the text and the hash (RIHS01_...) of a message such as sensor_msgs/msg/JointState.

    The text has the message's fields, then the fields of every message in it. Both are empty for a message that the
    distribution does not have.
    """
    known = _known_types()
    if name not in known.types:
        return "", ""
    return known.generate_msgdef(name, ros_version=2)[0], known.hash_rihs01(name)
