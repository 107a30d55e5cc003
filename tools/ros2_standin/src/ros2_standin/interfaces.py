"""Types of messages and services: their classes, their values as YAML, their definitions and type hashes."""

from __future__ import annotations

import array
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

from . import VerbError

SEPARATOR = "=" * 80


def load_interface(name: str, kind: str) -> Any:
    """Return the class of `name`, for example geometry_msgs/msg/Twist; `kind` is "msg" or "srv"."""
    parts = name.split("/")
    if len(parts) == 2:
        parts.insert(1, kind)
    if len(parts) != 3 or parts[1] != kind:
        raise VerbError(f"'{name}' is not a type: expected PACKAGE/{kind}/NAME")
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


def message_definition(name: str) -> tuple[str, str]:
    """Return the text and the hash (RIHS01_...) of a message such as sensor_msgs/msg/JointState.

    The text has the message's fields, then the fields of every message in it. Both are empty if the package does not
    install its definition.
    """
    try:
        described = json.loads(_installed(name, ".json"))
        hashes = {entry["type_name"]: entry["hash_string"] for entry in described["type_hashes"]}
        parts = [part["type_name"] for part in described["type_description_msg"]["referenced_type_descriptions"]]
        sections = [_installed(name, ".msg")]
        sections += [f"MSG: {part.replace('/msg/', '/')}\n{_installed(part, '.msg')}" for part in parts]
    except OSError:
        return "", ""
    return f"{SEPARATOR}\n".join(f"{section.rstrip()}\n" for section in sections), hashes[name]


def _installed(name: str, suffix: str) -> str:
    package, kind, message = name.split("/")
    try:
        share = get_package_share_directory(package)
    except PackageNotFoundError as error:
        raise FileNotFoundError(f"package '{package}' is not installed") from error
    return (Path(share) / kind / f"{message}{suffix}").read_text(encoding="utf-8")
