"""One publisher of a topic at a time: the messages of others are ignored and named, and no node starts to publish the
states of a robot, or its targets, if another program does. Two sources of one stream never mix.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message

from fcnet_core.control.timing import NEVER
from fcnet_core.errors import RobotInUseError
from fcnet_ros.publisher_identity import MAX_PUBLISHERS, UNKNOWN, IdentifiedMessages, Message, publisher_names
from fcnet_ros.topics import NEWEST, Topic

LOOK_PERIOD = 0.1  # [s] between two looks for messages of a latched topic, and whether its publisher has ended
ENOUGH = 100  # messages, about two seconds of a control loop
RECENT = 3.0  # [s] for which an ignored publisher counts as publishing
DEEP = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
DEEP_LATCHED = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
DISCOVERY_TIME = 1.0  # [s] after which messages of others have arrived
LONGEST = 2.0  # [s] if the graph has other publishers whose messages are not repeated yet
REPETITIONS, REPETITION_TIME, LAPSE = 3, 0.15, 0.5  # see Repetition [-, s, s]
_STEP = 0.01  # [s]
_OF_NODES: WeakKeyDictionary[Node, WeakSet[OnePublisher]] = WeakKeyDictionary()


class OnePublisher:
    """The newest message of a topic from one publisher, until it has been silent for `lapse` [s]; that of a latched topic
    until it has ended, or its node has started again. For one thread.

    Publishers that the middleware does not identify count as one. store: called with a message, or its serialised bytes
    if `raw`, and the time of reception. on_switch: called with the reason when another publisher is followed than
    before. received: when the newest message was received [s, time.monotonic].
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

        Messages over the topic's limit are dropped.
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
            self._store(content if self._kind is None else deserialize_message(content, self._kind), self.received)
        return True

    def _successor(self) -> Message | None:
        """Return the message that another publisher of a latched topic has left, if that one is followed from now on."""
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
        ignored = [gid for gid, (received, _) in list(self._ignored.items()) if time.monotonic() - received < RECENT]
        if not ignored and self.is_identified and not (starts and self._count < ENOUGH):
            return ""
        names = publisher_names(self._node, self._messages.topic_name)
        others, followed = (
            ", ".join(names.get(gid, UNKNOWN) for gid in ignored),
            names.get(self._followed or b"", UNKNOWN),
        )
        found = f"of {others} is ignored, that of {followed} is followed"
        if not ignored:
            found = f"of {' and '.join(names.values())} cannot be distinguished yet" if len(names) > 1 else ""
        return found and f"{self.topic.name} {found}; end the others, or give each robot its own namespace:=NAME"


def follow(node: Node, topic: Topic, take: Callable[[Any], None], raw: bool = False) -> None:
    """Pass the messages of the one publisher of a latched topic to `take`, in the node's executor."""
    messages = OnePublisher(node, topic, lambda message, _received: take(message), raw=raw)
    clock = Clock(clock_type=ClockType.STEADY_TIME)  # /clock may stand still
    node.create_timer(LOOK_PERIOD, lambda: messages.store(NEVER), clock=clock)


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
            taken, topic = messages.take(), messages.topic_name
            if taken is not None:
                repetition.add(now)
            if taken is not None and repetition.holds(now):
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
