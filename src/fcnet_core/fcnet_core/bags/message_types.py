"""Which fields a message type has: as the bag itself defines it, else as ROS does."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rosbags.typesys import Stores, TypesysError, get_types_from_idl, get_types_from_msg, get_typestore

LARGEST_DEFINITION = 64 * 2**10  # [bytes] the longest of the Unitree robots' has three thousand

Fields = Mapping[str, Any]  # kind -> (constants, [(field, definition)]) as rosbags describes types


class _Defined(dict[str, Any]):
    """Types that a bag defines. Those that it lacks are ROS's, which take as long to load as a minute to be judged."""

    def __missing__(self, kind: str) -> Any:
        return _known()[kind]


@lru_cache(maxsize=1)
def _known() -> Fields:
    return get_typestore(Stores.ROS2_JAZZY).fielddefs


def fields_for(kind: str, definitions: Mapping[str, tuple[str, str]]) -> Fields:
    """The fields of types, looked up by [], among which `kind` is if it is among the definitions (kind -> encoding and
    text) or known.

    They are not registered with rosbags, which would run code that it generates from the bag's text.
    """
    return _defined(kind, *definitions.get(kind, ("", "")))


@lru_cache(maxsize=64)
def _defined(kind: str, encoding: str, text: str) -> Fields:
    if not text or len(text) > LARGEST_DEFINITION:
        return _Defined()
    try:
        return _Defined(get_types_from_idl(text) if encoding == "ros2idl" else get_types_from_msg(text, kind))
    except (TypesysError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError):
        return _Defined()
