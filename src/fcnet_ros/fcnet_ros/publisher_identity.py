"""Who published a message: the GID of its publisher, which rclpy does not report, and the name of its node.

rcl reports it with every message (rmw_message_info_t), so messages are taken by calling rcl directly. The structures
below are valid from Humble to Kilted. As a check, the pointer next to the GID must be that of the middleware's name;
otherwise the publisher is unknown. A GID of Fast DDS is the same in every process.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription

from fcnet_core.control.timing import NEVER
from fcnet_ros.serialized import MAX_SIZE

GID_SIZE = 16  # [bytes] in use of a GID; Humble stores 24
OK = 0  # return code of rcl
CAPACITY = 1024  # [bytes] initial size of the buffer that messages are copied into
LOOKUP_PERIOD = 0.1  # [s] at least between two queries of the graph
MAX_PUBLISHERS = 64  # whose names are remembered
MAX_NAME = 80  # characters of a name
UNKNOWN = "an unknown node"


class _Gid(ctypes.Structure):
    """An rmw_gid_t, with room for longer ones."""

    _fields_ = (
        ("implementation", ctypes.c_void_p),
        ("gid", ctypes.c_uint8 * GID_SIZE),
        ("rest", ctypes.c_uint8 * 64),
    )

    def known(self) -> bytes:
        """Return the GID; empty if the structure is not that of this middleware."""
        return bytes(self.gid) if self.implementation == _rcl().rmw_get_implementation_identifier() else b""


class _Info(ctypes.Structure):
    """An rmw_message_info_t."""

    _fields_ = (
        ("source_timestamp", ctypes.c_int64),
        ("received_timestamp", ctypes.c_int64),
        ("publication_sequence_number", ctypes.c_uint64),
        ("reception_sequence_number", ctypes.c_uint64),
        ("publisher", _Gid),
    )


class _Allocator(ctypes.Structure):
    _fields_ = (("functions", ctypes.c_void_p * 5),)


class _Array(ctypes.Structure):
    """An rcutils_uint8_array_t."""

    _fields_ = (
        ("buffer", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("allocator", _Allocator),
    )


@cache
def _rcl() -> Any:
    """Return the library of rclpy, which includes the symbols of rmw and rcutils. Raises OSError or AttributeError."""
    library = ctypes.PyDLL("librcl.so")  # keeps the GIL, as rclpy does: releasing it costs more than the call
    pointer = ctypes.c_void_p
    for name, arguments, result in (
        ("rcl_take_serialized_message", [pointer] * 4, ctypes.c_int),
        ("rcl_publisher_get_rmw_handle", [pointer], pointer),
        ("rmw_get_gid_for_publisher", [pointer] * 2, ctypes.c_int),
        ("rmw_get_implementation_identifier", [], pointer),
        ("rcutils_get_default_allocator", [], _Allocator),
        ("rcutils_uint8_array_init", [pointer, ctypes.c_size_t, pointer], ctypes.c_int),
        ("rcutils_uint8_array_resize", [pointer, ctypes.c_size_t], ctypes.c_int),
        ("rcutils_uint8_array_fini", [pointer], ctypes.c_int),
        ("rcutils_reset_error", [], None),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


class Taken(NamedTuple):
    """A serialised message, cut to MAX_SIZE + 1 bytes. received [ns, wall-clock time]; publisher: its GID, empty if
    unknown.
    """

    content: bytes
    received: int
    publisher: bytes


class IdentifyingTaker:
    """Takes the messages of a subscription with their publishers, which are unknown without rcl. For one thread."""

    def __init__(self, subscription: Subscription) -> None:
        self._handle, self._kind = subscription.handle, subscription.msg_type
        try:
            self._rcl = _rcl()
        except (OSError, AttributeError):
            self._rcl = None
            return
        self._info, self._array = _Info(), _Array()
        allocator = self._rcl.rcutils_get_default_allocator()
        if self._rcl.rcutils_uint8_array_init(ctypes.byref(self._array), CAPACITY, ctypes.byref(allocator)) != OK:
            raise OSError("rcutils could not allocate a message buffer")
        self._take = self._rcl.rcl_take_serialized_message
        self._arguments = ctypes.byref(self._array), ctypes.byref(self._info), None

    def __del__(self) -> None:
        if hasattr(self, "_array"):
            self._rcl.rcutils_uint8_array_fini(ctypes.byref(self._array))

    def take(self) -> Taken | None:
        """Return the oldest message not yet taken, or None."""
        if self._rcl is None:
            with self._handle:
                taken = self._handle.take_message(self._kind, True)
            return None if taken is None else Taken(taken[0], taken[1]["received_timestamp"], b"")
        with self._handle:
            result = self._take(self._handle.pointer, *self._arguments)
        if result != OK:
            self._rcl.rcutils_reset_error()
            return None
        array, info = self._array, self._info
        content = ctypes.string_at(array.buffer, min(array.length, MAX_SIZE + 1))
        if array.capacity > MAX_SIZE:
            self._rcl.rcutils_uint8_array_resize(ctypes.byref(array), CAPACITY)
        return Taken(content, info.received_timestamp, info.publisher.known())


def gid_of(publisher: Publisher) -> bytes:
    """Return the GID of a publisher of this process; empty if unknown."""
    gid = _Gid()
    try:
        rcl = _rcl()
    except (OSError, AttributeError):
        return b""
    with publisher.handle:
        handle = rcl.rcl_publisher_get_rmw_handle(publisher.handle.pointer)
        if not handle or rcl.rmw_get_gid_for_publisher(handle, ctypes.byref(gid)) != OK:
            return b""
    return gid.known()


class PublisherNames:
    """Describes each publisher of a topic by a constant `text` of its GID: the name of its node and the GID."""

    def __init__(self, node: Node, topic: str) -> None:
        self._node, self._topic = node, topic
        self._queried = NEVER
        # Forgets the publisher that has been silent for longest.
        self.text: Callable[[bytes], str] = lru_cache(MAX_PUBLISHERS)(self._text)

    def _text(self, gid: bytes) -> str:
        return f"{self._name(gid)} {gid.hex()}".strip()

    def _name(self, gid: bytes) -> str:
        now = time.monotonic()
        if not gid or now - self._queried < LOOKUP_PERIOD:
            return UNKNOWN
        self._queried = now
        for info in self._node.get_publishers_info_by_topic(self._topic):
            if bytes(info.endpoint_gid)[:GID_SIZE] == gid:
                name = f"{info.node_namespace.rstrip('/')}/{info.node_name}"
                return ascii(name)[1:-1][:MAX_NAME].replace(" ", "_")
        return UNKNOWN


def is_own(text: str, identity: bytes) -> bool:
    """Whether a text of PublisherNames, which ends with an identity, describes the sender with `identity`.

    True if either identity is unknown.
    """
    known = text.rpartition(" ")[2]
    return not identity or len(known) != 2 * len(identity) or known == identity.hex()
