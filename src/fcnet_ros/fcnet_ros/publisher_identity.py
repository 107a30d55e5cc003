"""Who published a message: the GID of its publisher, which rclpy does not report, and the name of its node.

rcl reports it with every message (rmw_message_info_t), so messages are taken by calling rcl directly. The structures
below are valid from Humble to Kilted. As a check, the pointer next to the GID must be that of the middleware's name;
otherwise the publisher is unknown. A GID of Fast DDS is the same in every process.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.topic_endpoint_info import TopicEndpointInfo

from fcnet_core.control.timing import NEVER
from fcnet_ros.serialized import MAX_SIZE
from fcnet_ros.topics import NoExecutor, Topic

GID_SIZE = 16  # [bytes] in use of a GID; Humble stores 24
OK, NO_MESSAGE = 0, 401  # return codes of rcl
CAPACITY = 1024  # [bytes] initial size of the buffer that messages are copied into
LOOKUP_PERIOD = 0.1  # [s] at least between two queries of the graph
MAX_PUBLISHERS = 64  # whose names are remembered
MAX_NAME = 80  # characters of a name
UNKNOWN = "an unknown node"
UNNAMED = "_NODE_NAME_UNKNOWN_"  # rmw's name of a node before discovery is complete
Message = tuple[bytes, int, bytes]  # see IdentifiedMessages.take


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


class IdentifiedMessages:
    """Polls the serialised messages of a topic, with their publishers. For one thread.

    A callback for each message would run in an executor's thread and compete for the GIL with a real-time loop; 500
    states a second would cost a third of a core. So no executor handles this subscription: the middleware keeps the
    newest messages.

    publisher: returns the constant text that describes the publisher with a GID: the name of its node, and the GID.
    """

    def __init__(self, node: Node, topic: Topic) -> None:
        self.subscription = topic.create_subscription(node, lambda _content: None, callback_group=NoExecutor())
        self.topic_name: str = self.subscription.topic_name
        self._node, self._rcl, self._handle = node, _rcl(), self.subscription.handle
        self._queried, self._gid = NEVER, b""
        # Forgets the publisher that has been silent for longest.
        self.publisher: Callable[[bytes], str] = lru_cache(MAX_PUBLISHERS)(self._describe)
        self._info, self._array = _Info(), _Array()
        array, allocator = ctypes.byref(self._array), self._rcl.rcutils_get_default_allocator()
        if self._rcl.rcutils_uint8_array_init(array, CAPACITY, ctypes.byref(allocator)) != OK:
            raise OSError("rcutils could not allocate a message buffer")
        weakref.finalize(self, self._rcl.rcutils_uint8_array_fini, array)
        self._place, self._buffer = (0, 0), memoryview(b"")
        self._take = self._rcl.rcl_take_serialized_message
        self._arguments = ctypes.addressof(self._array), ctypes.addressof(self._info), None
        self._raw_gid = memoryview(self._info.publisher.gid).cast("B")

    def take(self) -> Message | None:
        """Return the oldest message not yet taken, cut to MAX_SIZE + 1 bytes, the time when it was received [ns,
        wall-clock time], and the GID of its publisher, empty if unknown; None if there is no message.
        """
        handle = self._handle
        with handle:
            result = self._take(handle.pointer, *self._arguments)
        if result:
            if result != NO_MESSAGE:
                self._rcl.rcutils_reset_error()
            return None
        array, info = self._array, self._info
        if (place := (array.buffer, array.capacity)) != self._place:  # enlarged; string_at costs four times as much
            self._place, content_type = place, ctypes.c_uint8 * array.capacity
            self._buffer = memoryview(content_type.from_address(array.buffer))
        content = bytes(self._buffer[: min(array.length, MAX_SIZE + 1)])
        if array.capacity > MAX_SIZE:
            self._rcl.rcutils_uint8_array_resize(ctypes.byref(array), CAPACITY)
        if self._raw_gid != self._gid:
            self._gid = info.publisher.known()
        return content, info.received_timestamp, self._gid

    def _describe(self, gid: bytes) -> str:
        return f"{self._name(gid)} {gid.hex()}".strip()

    def _name(self, gid: bytes) -> str:
        now = time.monotonic()
        if not gid or now - self._queried < LOOKUP_PERIOD:
            return UNKNOWN
        self._queried = now
        return publisher_names(self._node, self.topic_name).get(gid, UNKNOWN)


def publisher_names(node: Node, topic: str) -> dict[bytes, str]:
    """Return the node of each publisher in the graph by its GID. topic: its name after remapping."""
    return {bytes(info.endpoint_gid)[:GID_SIZE]: node_name(info) for info in node.get_publishers_info_by_topic(topic)}


def node_name(info: TopicEndpointInfo) -> str:
    """Return the node of an endpoint, with its namespace, in at most MAX_NAME characters of ASCII without spaces."""
    if info.node_name == UNNAMED:
        return UNKNOWN
    name = f"{info.node_namespace.rstrip('/')}/{info.node_name}"
    return ascii(name)[1:-1][:MAX_NAME].replace(" ", "_")


def gid_of(publisher: Publisher) -> bytes:
    """Return the GID of a publisher of this process; empty if unknown."""
    gid, rcl = _Gid(), _rcl()
    with publisher.handle:
        handle = rcl.rcl_publisher_get_rmw_handle(publisher.handle.pointer)
        if not handle or rcl.rmw_get_gid_for_publisher(handle, ctypes.byref(gid)) != OK:
            return b""
    return gid.known()


def is_own(text: str, identity: bytes) -> bool:
    """Whether a text of IdentifiedMessages, which ends with an identity, describes the sender with `identity`.

    True if either identity is unknown.
    """
    known = text.rpartition(" ")[2]
    return not identity or len(known) != 2 * len(identity) or known == identity.hex()
