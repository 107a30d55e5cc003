"""Messages as YAML and YAML as messages."""

from __future__ import annotations

import array
import importlib
from typing import Any

import numpy as np
import yaml

from .verb_error import VerbError


def message_as_text(message: Any) -> str:
    """Return the message's fields as YAML."""
    return yaml.safe_dump(as_plain(message), sort_keys=False, width=10**9)


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
    if type_name.startswith("sequence<") and "/" in type_name:
        return [_new_message(type_name[len("sequence<") : -1].split(",")[0], item) for item in value]
    if type_name in ("float", "double"):
        return float(value)
    if isinstance(value, list) and any(kind in type_name for kind in ("float", "double")):
        return [float(item) for item in value]
    return value


def _new_message(type_name: str, values: Any) -> Any:
    package, name = type_name.split("/")
    message = getattr(importlib.import_module(f"{package}.msg"), name)()
    _set_fields(message, values)
    return message
