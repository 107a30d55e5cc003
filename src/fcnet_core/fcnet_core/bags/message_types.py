"""Which fields a message type has: known ones of ROS, and others that a bag defines itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rosbags.typesys import Stores, TypesysError, get_types_from_idl, get_types_from_msg, get_typestore

LARGEST_DEFINITION = 64 * 2**10  # [bytes] the longest of the Unitree robots' has three thousand

Fields = Mapping[str, Any]  # kind -> (constants, [(field, definition)]) as rosbags describes types


@lru_cache(maxsize=1)
def _known() -> Fields:
    return get_typestore(Stores.ROS2_JAZZY).fielddefs


def fields_for(kind: str, definitions: Mapping[str, tuple[str, str]]) -> Fields:
    """The fields of types among which `kind` is, if it is known or among the definitions: kind -> encoding and text.

    They are not registered with rosbags, which would run code that it generates from the bag's text.
    """
    known = _known()
    if kind in known or kind not in definitions:
        return known
    encoding, text = definitions[kind]
    if len(text) > LARGEST_DEFINITION:
        return known
    try:
        found = get_types_from_idl(text) if encoding == "ros2idl" else get_types_from_msg(text, kind)
    except (TypesysError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError):
        return known
    return {**found, **known}
