"""Message and service types by their names."""

from __future__ import annotations

import importlib
from typing import Any

from .verb_error import VerbError


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
