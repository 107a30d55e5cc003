"""Values of parameters, typed as upstream types them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

import yaml
from launch.launch_context import LaunchContext
from launch.substitution import Substitution, perform

from .parameter_descriptions import ParameterValue

Scalar = Union[bool, int, float, str]
SomeParameterValue = Union[Scalar, Substitution, ParameterValue, "list[Any]", "tuple[Any, ...]"]
SCALARS = (bool, int, float, str)


def evaluate_parameters(context: LaunchContext, parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return name and value of every parameter; names of nested mappings are joined by dots."""
    found: dict[str, Any] = {}
    for key, value in parameters.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found.update(evaluate_parameters(context, value, f"{name}."))
        else:
            found[name] = evaluate_value(context, name, value)
    return found


def evaluate_value(context: LaunchContext, name: str, value: Any) -> Any:
    """Return a scalar or a list of one type; TypeError for anything else.

    The text of a substitution is read as YAML, unless ParameterValue names the type. A plain text stays a text.
    """
    if isinstance(value, ParameterValue):
        return _typed(context, name, value)
    if isinstance(value, Substitution):
        return _checked(name, _read_yaml(name, perform(context, value)))
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, Substitution) for item in value):
            return _checked(name, _read_yaml(name, perform(context, value)))
        return _checked(name, list(value))
    return _checked(name, value)


def _typed(context: LaunchContext, name: str, value: ParameterValue) -> Any:
    if not isinstance(value.value, (Substitution, str)):
        return evaluate_value(context, name, value.value)
    text = perform(context, value.value)
    if value.value_type is None:
        return _checked(name, _read_yaml(name, text))
    if value.value_type is str:
        return text
    loaded = _read_yaml(name, text)
    wants_list = get_origin(value.value_type) is list
    wanted = get_args(value.value_type)[0] if wants_list else value.value_type
    if wanted is float and not wants_list and type(loaded) is int:
        return float(loaded)
    items = loaded if wants_list else [loaded]
    if wanted not in SCALARS or not isinstance(items, list) or any(type(item) is not wanted for item in items):
        kind = f"a list of {wanted.__name__}" if wants_list else wanted.__name__
        raise TypeError(f"parameter '{name}' is {loaded!r}: expected {kind}")
    return loaded


def _read_yaml(name: str, text: str) -> Any:
    try:
        return "" if text == "" else yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise TypeError(
            f"parameter '{name}' is {text!r}, which is no YAML: for a text use ParameterValue(..., value_type=str)"
        ) from error


def _checked(name: str, value: Any) -> Any:
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, list) and value and {type(item) for item in value} == {int, float}:
        return [float(item) for item in value]
    if isinstance(value, list) and value and type(value[0]) in SCALARS and len({type(item) for item in value}) == 1:
        return value
    raise TypeError(
        f"parameter '{name}' is {value!r}: expected a bool, int, float, text or a non-empty list of one of them"
    )
