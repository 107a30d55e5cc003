"""Descriptions of parameters."""

from __future__ import annotations

from typing import Any

from launch.unknown_name import refuse_unknown_names

__getattr__ = refuse_unknown_names(__name__)


class ParameterValue:
    """A value whose type is `value_type` (bool, int, float, str or a list of one), whatever YAML makes of its text."""

    def __init__(self, value: Any, *, value_type: Any = None) -> None:
        self.value = value
        self.value_type = value_type
