"""Who published a message, and one publisher of a topic at a time: the messages of others are ignored and named, and no
node starts to publish the states of a robot, or its targets, if another program does. Two sources of one stream never
mix.

A publisher is identified by its GID, which rclpy does not report. rcl reports it with every message
(rmw_message_info_t), so messages are taken by calling rcl directly. The structures below are valid from Humble to
Kilted. As a check, the pointer next to the GID must be that of the middleware's name; otherwise the publisher is
unknown. A GID of Fast DDS is the same in every process.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.topic_endpoint_info import TopicEndpointInfo

from fcnet_core.control.timing import NEVER
from fcnet_core.errors import RobotInUseError
from fcnet_ros.serialized import MAX_SIZE
from fcnet_ros.topics import NEWEST, WARNING_PERIOD, NoExecutor, Topic, steady_timer

GID_SIZE = 16  # [bytes] in use of a GID; Humble stores 24
OK, NO_MESSAGE = 0, 401  # return codes of rcl
CAPACITY = 1024  # [bytes] initial size of the buffer that messages are copied into
MAX_PUBLISHERS = 64  # whose names are remembered
MAX_NAME = 80  # characters of a name
UNKNOWN = "an unknown node"
UNNAMED = "_NODE_NAME_UNKNOWN_"  # rmw's name of a node before discovery is complete
Message = tuple[bytes, int, bytes]  # see IdentifiedMessages.take
LOOK_PERIOD = 0.1  # [s] at least between two queries of the graph; between two looks for messages of a latched topic
ENOUGH = 100  # messages, about two seconds of a control loop
RECENT = 3.0  # [s] for which an ignored publisher counts as publishing
DEEP = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
DEEP_LATCHED = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
DISCOVERY_TIME = 1.0  # [s] after which messages of others have arrived
LONGEST = 2.0  # [s] if the graph has other publishers whose messages are not repeated yet
REPETITIONS, REPETITION_TIME, LAPSE = 3, 0.15, 0.5  # see Repetition [-, s, s]
_STEP = 0.01  # [s]
_OF_NODES: WeakKeyDictionary[Node, WeakSet[OnePublisher]] = WeakKeyDictionary()


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
        name, now = UNKNOWN, time.monotonic()
        if gid and now - self._queried >= LOOK_PERIOD:
            self._queried = now
            name = publisher_names(self._node, self.topic_name).get(gid, UNKNOWN)
        return f"{name} {gid.hex()}".strip()


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


class OnePublisher:
    """The newest message of a topic from one publisher, until it has been silent for `lapse` [s]. For one thread.

    That of a latched topic is followed until it has left the graph, or its node has started again. Publishers that the
    middleware does not identify count as one. store: called with a message, or its serialised bytes if `raw`, and the
    time of reception. on_switch: called with the reason when another publisher is followed than before. received: when
    the newest message was received [s, time.monotonic].
    """

    def __init__(
        self,
        node: Node,
        topic: Topic,
        store: Callable[[Any, float], None],
        lapse: float = 0.0,
        raw: bool = False,
        on_switch: Callable[[str], None] | None = None,
    ) -> None:
        self._node, self._lapse, self._on_switch = node, lapse, on_switch
        self.topic = topic if topic.requested.depth == 1 else replace(topic, requested=NEWEST)
        self._kind, self._store = None if raw else topic.kind, store
        self._messages = IdentifiedMessages(node, self.topic)
        self._followed: bytes | None = None
        self._content: bytes | None = None  # of the newest message, if it is not stored yet
        self.received, self._count = NEVER, 0
        self._ignored: dict[bytes, tuple[float, Message]] = {}  # reception and content of the newest message by GID
        self._is_latched, self._looked = topic.requested.durability == DurabilityPolicy.TRANSIENT_LOCAL, NEVER
        _OF_NODES.setdefault(node, WeakSet()).add(self)

    def store(self, since: float) -> bool:
        """Decode and store the newest message if it was received after `since`; return whether it was.

        Damaged messages, and those over the topic's limit, are dropped.
        """
        while (taken := self._messages.take() or self._successor()) is not None:
            content, arrived, gid = taken
            received = time.monotonic() - max(0, time.time_ns() - arrived) * 1e-9
            if (gid == self._followed or self._follows(taken, received)) and len(content) <= self.topic.limit:
                self.received, self._content = received, content
                self._count += 1
                if not self._ignored and not self._is_latched:  # the middleware keeps one message
                    break
        if self.received < since:
            return False
        if self._content is not None:
            content, self._content = self._content, None
            try:
                message = content if self._kind is None else deserialize_message(content, self._kind)
            except RuntimeError:  # of the middleware
                warn = self._node.get_logger().warning
                warn(f"a damaged message on {self.topic.name} is ignored", throttle_duration_sec=WARNING_PERIOD)
            else:
                self._store(message, self.received)
        return True

    def _successor(self) -> Message | None:
        """Return the message of an ignored publisher of a latched topic that is followed from now on."""
        if not (self._is_latched and self._ignored) or time.monotonic() - self._looked < LOOK_PERIOD:
            return None
        self._looked = time.monotonic()
        names = publisher_names(self._node, self._messages.topic_name)
        followed = names.get(self._followed or b"")
        heirs = [gid for gid in self._ignored if gid in names and followed in (None, names[gid])]
        if not heirs:
            return None
        self._followed = None
        return self._ignored.pop(heirs[-1])[1]

    def _follows(self, message: Message, received: float) -> bool:
        """Return whether another publisher is followed from now on, after its message; or ignore it."""
        before, gid = self._followed, message[2]
        if before is None or (not self._is_latched and received - self.received > self._lapse):
            self._followed, self._count = gid, 0
            if before is not None and self._on_switch:
                who = publisher_names(self._node, self._messages.topic_name).get(gid, UNKNOWN)
                self._on_switch(f"{self.topic.name} is now of {who}, which may be another robot")
            return True
        if not self._ignored:  # from now on the one message that the middleware keeps would often be another's
            deep = DEEP_LATCHED if self._is_latched else DEEP
            self._node.destroy_subscription(self._messages.subscription)
            self._messages = IdentifiedMessages(self._node, replace(self.topic, requested=deep))
        if gid in self._ignored or len(self._ignored) < MAX_PUBLISHERS:
            self._ignored[gid] = received, message
        return False

    @property
    def is_identified(self) -> bool:
        """Whether the middleware identifies the publisher."""
        return self._followed != b""

    def conflict(self, starts: bool = False) -> str:
        """Return whose messages are ignored, or that publishers cannot be distinguished; empty without any.

        starts: a motion would start, so several publishers in the graph are a conflict until ENOUGH messages of one
        have come without any of another.
        """
        since, others = time.monotonic() - RECENT, list(self._ignored.items())
        ignored = [gid for gid, (received, _) in others if gid != self._followed and received > since]
        if not ignored and self.is_identified and not (starts and self._count < ENOUGH):
            return ""
        names = publisher_names(self._node, self._messages.topic_name)
        if ignored:
            followed, *who = (names.get(gid, UNKNOWN) for gid in (self._followed or b"", *ignored))
            found = f"of {', '.join(who)} is ignored, that of {followed} is followed"
        elif len(names) > 1:
            found = f"of {' and '.join(names.values())} cannot be distinguished yet"
        else:
            return ""
        return f"{self.topic.name} {found}; end the others, or give each robot its own namespace:=NAME"


def follow(node: Node, topic: Topic, take: Callable[[Any], None], raw: bool = False) -> None:
    """Pass the messages of the one publisher of a latched topic to `take`, in the node's executor."""
    messages = OnePublisher(node, topic, lambda message, _received: take(message), raw=raw)
    steady_timer(node, LOOK_PERIOD, lambda: messages.store(NEVER))


def conflicts(node: Node, *topics: Topic) -> str:
    """Return the conflicts of all topics of a node, or those with which no motion may start on `topics`."""
    names, starts = [topic.name for topic in topics], bool(topics)
    followed = [one for one in list(_OF_NODES.get(node, ())) if not starts or one.topic.name in names]
    return "; ".join(sorted(filter(None, {one.conflict(starts) for one in followed})))


class Company:
    """Listens whether other programs publish on `topics`, which the node does not publish before `refuse` or `close`.

    The ROS graph proves nothing: a killed program remains in it for 20 s, and its successor must not wait. Nor does a
    single message: only repeated ones do.
    """

    def __init__(self, node: Node, *topics: Topic, remedy: str = "a namespace of its own (namespace:=NAME)") -> None:
        self._node, self._began, self._remedy = node, time.monotonic(), remedy
        self._heard = [(IdentifiedMessages(node, topic), Repetition()) for topic in topics]

    def refuse(self) -> None:
        """Listen until DISCOVERY_TIME after the beginning, in doubt until LONGEST.

        Raises RobotInUseError if another program publishes on one of the topics.
        """
        try:
            while True:
                now = time.monotonic()
                self.check(now)
                is_heard = any(repetition.is_recent(now) for _, repetition in self._heard)
                if not is_heard and now - self._began > (LONGEST if self.in_doubt() else DISCOVERY_TIME):
                    return
                time.sleep(_STEP)
        finally:
            self.close()

    def check(self, now: float) -> None:
        """Take new messages. Raises RobotInUseError at time `now` [s] if another program publishes."""
        for messages, repetition in self._heard:
            if (taken := messages.take()) is not None:
                repetition.add(now)
            if taken is not None and repetition.holds(now):
                topic = messages.topic_name
                who = publisher_names(self._node, topic).get(taken[2], "another program")
                raise RobotInUseError(f"{who} publishes {topic} already; end it, or start this one with {self._remedy}")

    def in_doubt(self) -> bool:
        """Return whether the graph has publishers of the topics."""
        return any(self._node.count_publishers(messages.topic_name) for messages, _ in self._heard)

    def close(self) -> None:
        """Stop listening."""
        while self._heard:
            self._node.destroy_subscription(self._heard.pop()[0].subscription)


class Repetition:
    """Detects repeated messages: `holds` after REPETITIONS of them in at least REPETITION_TIME, until LAPSE after the
    last one. Times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._count = 0
        self._first = self._last = float("-inf")

    def add(self, received: float) -> None:
        """Count a message."""
        if received - self._last > LAPSE:
            self._count, self._first = 0, received
        self._count, self._last = self._count + 1, received

    def is_recent(self, now: float) -> bool:
        """Return whether a message has arrived within LAPSE."""
        return now - self._last <= LAPSE

    def holds(self, now: float) -> bool:
        """Return whether the messages are repeated."""
        return self.is_recent(now) and self._count >= REPETITIONS and self._last - self._first >= REPETITION_TIME
