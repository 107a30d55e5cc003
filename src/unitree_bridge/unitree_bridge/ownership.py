"""One bridge for a robot: between computers by messages on robot_ownership; on one the I/O process has a lock.

The ROS graph is no proof: a bridge that was killed stays in it for 20 s, and its successor must not wait; only messages
that arrive count. Since discovery may take seconds, the owner of a robot keeps listening.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, replace

from rclpy.node import Node
from std_msgs.msg import String

from fcnet_ros.topics import JOINT_STATES, ROBOT_OWNERSHIP, PolledSubscription

PERIOD = 0.1  # [s] between two messages
DISCOVERY_TIME = 1.0  # [s] after which messages of others have arrived
LONGEST = 1.5  # [s] where the graph knows of others from whom no message has arrived
NAMING_TIME = 1.0  # [s]
UNNAMED = "_NODE_NAME_UNKNOWN_"  # how rmw calls a node whose name has not arrived yet
_STEP = 0.01  # [s]


class OwnershipError(ValueError):
    """Another program moves this robot; one sentence says which and what to do."""


@dataclass(frozen=True)
class Claim:
    """Who wants the robot, or holds it already, and since when [ns, time of day]."""

    holds: bool
    since: int
    owner: str

    @classmethod
    def parse(cls, text: str) -> Claim | None:
        """Read the text of a message; None for what is no claim."""
        words = text.split(maxsplit=2)
        if len(words) != 3 or not words[1].isdecimal():
            return None
        return cls(words[0] == "holds", int(words[1]), words[2])

    def yields_to(self, other: Claim) -> bool:
        """Whether the other one takes precedence: a holder over those who want, then the earlier one.

        No claim yields to itself, which comes back to its sender.
        """
        return (not self.holds, self.since, self.owner) > (not other.holds, other.since, other.owner)

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'wants'} {self.since} {self.owner}"


class RobotOwnership:
    """This bridge's ownership of the robot of its namespace: `acquire` it, `renew` it every PERIOD, `release` it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        owner = f"{node.get_name()} of process {os.getpid()} on {socket.gethostname()}"
        self._claim = Claim(False, time.time_ns(), owner)
        self._publisher = ROBOT_OWNERSHIP.publisher(node)
        self._others = PolledSubscription(node, ROBOT_OWNERSHIP)
        self._states = PolledSubscription(node, JOINT_STATES)

    def acquire(self) -> None:
        """Listen for a second; raises OwnershipError when another program has the robot, or wanted it earlier."""
        began, sent = time.monotonic(), 0.0
        while (now := time.monotonic()) < began + DISCOVERY_TIME or (now < began + LONGEST and self._in_doubt()):
            if now >= sent + PERIOD:
                sent = now
                self._send()
            self._refuse_others()
            time.sleep(_STEP)
        self._states.destroy(self._node)  # before this bridge publishes them itself
        self._claim = replace(self._claim, holds=True)
        self._send()

    def renew(self) -> str | None:
        """Publish that the robot is taken; returns a sentence when another program takes precedence."""
        self._send()
        other = self._precedent_claim()
        return None if other is None else self._sentence(other.owner)

    def release(self) -> None:
        """Let others have the robot."""
        self._states.destroy(self._node)
        self._others.destroy(self._node)
        self._node.destroy_publisher(self._publisher)

    def _in_doubt(self) -> bool:
        claimants = self._node.get_publishers_info_by_topic(ROBOT_OWNERSHIP.name)  # this bridge is one of them
        return len(claimants) > 1 or bool(self._node.get_publishers_info_by_topic(JOINT_STATES.name))

    def _send(self) -> None:
        self._publisher.publish(String(data=str(self._claim)))

    def _refuse_others(self) -> None:
        if other := self._precedent_claim():
            raise OwnershipError(self._sentence(other.owner))
        if self._states.take() is not None:
            raise OwnershipError(self._sentence(self._publisher_of_states()))

    def _publisher_of_states(self) -> str:
        """Return the name of the node whose message arrived; the name may arrive after its first message."""
        deadline = time.monotonic() + NAMING_TIME
        while time.monotonic() < deadline:
            for publisher in self._node.get_publishers_info_by_topic(JOINT_STATES.name):
                if publisher.node_name != UNNAMED:
                    return str(publisher.node_name)
            time.sleep(_STEP)
        return "another program"

    def _precedent_claim(self) -> Claim | None:
        """Return a claim that takes precedence and has arrived since the last call."""
        found = None
        while (taken := self._others.take()) is not None:
            other = Claim.parse(taken[0].data)
            if other is not None and self._claim.yields_to(other):
                found = other
        return found

    def _sentence(self, who: str) -> str:
        return (
            f"{who} moves this robot already, or publishes {self._node.resolve_topic_name(JOINT_STATES.name)}: another "
            "bridge or simulator is running; stop it, or use a namespace"
        )
