"""One bridge for a robot: between computers by claims on robot_ownership; on one computer the I/O process has a lock.

Every bridge publishes each PERIOD that it wants the robot, or holds it. The ROS graph is no proof of another bridge:
one that was killed stays in it for 20 s, and its successor must not wait. Neither is a message: a claim counts while it
is repeated (see Repetition), so that one text, whatever it says, changes nothing.

- A bridge that starts listens for a second, in which others are discovered. It yields, and ends, to one that holds the
  robot; of those that want it, to the one with the smaller number, drawn at random, since clocks of computers differ.
  It has moved nothing so far.
- A bridge that holds the robot never leaves it because of a claim. Two that hold it, because they did not discover each
  other in time or one of them was suspended, are in conflict, and both report it. A conflict ends no motion and lets
  none begin: who follows targets goes on, and nobody begins to follow until the other claim has ended.

Who may publish on robot_ownership can keep a bridge from starting or from following, never end or move one; SROS 2
keeps strangers from it (docs/security.md). Two bridges of different computers on one motor board that do not hear each
other are found by the safety checks alone: lost or foreign packets, and joint_error as soon as they want different
things.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from dataclasses import dataclass, replace

from rclpy.node import Node
from std_msgs.msg import String

from fcnet_core.errors import RobotInUseError
from fcnet_ros.topics import JOINT_STATES, ROBOT_OWNERSHIP, PolledSubscription

PERIOD = 0.1  # [s] between two messages
DISCOVERY_TIME = 1.0  # [s] after which messages of others have arrived
LONGEST = 2.0  # [s] where the graph knows of others from whom no message has arrived, or too few
REPETITIONS, REPETITION_TIME, LAPSE = 3, 0.15, 0.5  # see Repetition [-, s, s]
NAMING_TIME = 1.0  # [s]
MOST_OWNERS = 64  # of which claims are remembered
MOST_AT_ONCE = 50  # messages taken at a time
UNNAMED = "_NODE_NAME_UNKNOWN_"  # how rmw calls a node whose name has not arrived yet
CLAIM = re.compile(r"(holds|wants) ([0-9]{1,20}) (.{1,200})")
_STEP = 0.01  # [s]


@dataclass(frozen=True)
class Claim:
    """That a bridge holds the robot, or wants it; number: decides between two that want it."""

    holds: bool
    number: int
    owner: str

    @classmethod
    def parse(cls, text: str) -> Claim | None:
        """Read the text of a message; None for what is no claim."""
        found = CLAIM.fullmatch(text)
        return cls(found[1] == "holds", int(found[2]), found[3]) if found and found[3].isprintable() else None

    def yields_to(self, other: Claim) -> bool:
        """Whether the other one takes precedence: a holder over those who want, then the smaller number."""
        return (not self.holds, self.number, self.owner) > (not other.holds, other.number, other.owner)

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'wants'} {self.number} {self.owner}"


class Repetition:
    """Whether messages go on to arrive: `holds` after REPETITIONS of them in REPETITION_TIME or longer, until LAPSE
    after the last. Times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._count = 0
        self._first = self._last = float("-inf")

    def add(self, received: float) -> None:
        """Note a message."""
        if received - self._last > LAPSE:
            self._count, self._first = 0, received
        self._count, self._last = self._count + 1, received

    def is_recent(self, now: float) -> bool:
        """Whether a message has arrived within LAPSE."""
        return now - self._last <= LAPSE

    def holds(self, now: float) -> bool:
        """Whether the messages are repeated."""
        return self.is_recent(now) and self._count >= REPETITIONS and self._last - self._first >= REPETITION_TIME


class RobotOwnership:
    """This bridge's ownership of the robot of its namespace: `acquire` it, `renew` it every PERIOD, `release` it.

    conflict: the sentence about another bridge that holds the robot, too, while there is one.
    """

    def __init__(self, node: Node) -> None:
        self.conflict = ""
        self._node = node
        owner = f"{node.get_name()} of process {os.getpid()} on {socket.gethostname()}"
        self._claim = Claim(False, secrets.randbits(63), owner)
        self._claims: dict[str, tuple[Claim, Repetition]] = {}  # of others, by owner
        self._publisher = ROBOT_OWNERSHIP.publisher(node)
        self._others = PolledSubscription(node, ROBOT_OWNERSHIP)
        self._states, self._states_arrive = PolledSubscription(node, JOINT_STATES), Repetition()

    def acquire(self) -> None:
        """Listen for a second; raises RobotInUseError when another program has the robot, or wants it and precedes."""
        began, sent = time.monotonic(), 0.0
        while (now := time.monotonic()) < began + DISCOVERY_TIME or (now < began + LONGEST and self._in_doubt(now)):
            if now >= sent + PERIOD:
                sent = now
                self._send()
            self._refuse_others(now)
            time.sleep(_STEP)
        self._states.destroy(self._node)  # before this bridge publishes them itself
        self._claim = replace(self._claim, holds=True)
        self._send()

    def renew(self) -> None:
        """Publish that the robot is held, and renew `conflict`."""
        self._send()
        others = (claim.owner for claim in self._repeated_claims(time.monotonic()) if claim.holds)
        other = min(others, default="")
        self.conflict = other and (
            f"{other} holds this robot, too; nothing begins to move until one of the two bridges has ended: end one of "
            "them, or give it a namespace of its own"
        )

    def release(self) -> None:
        """Let others have the robot."""
        self._states.destroy(self._node)
        self._others.destroy(self._node)
        self._node.destroy_publisher(self._publisher)

    def _in_doubt(self, now: float) -> bool:
        if any(repetition.is_recent(now) for _claim, repetition in self._claims.values()):
            return True
        claimants = self._node.get_publishers_info_by_topic(ROBOT_OWNERSHIP.name)  # this bridge is one of them
        return len(claimants) > 1 or bool(self._node.get_publishers_info_by_topic(JOINT_STATES.name))

    def _send(self) -> None:
        self._publisher.publish(String(data=str(self._claim)))

    def _refuse_others(self, now: float) -> None:
        for claim in self._repeated_claims(now):
            if self._claim.yields_to(claim):
                raise RobotInUseError(self._sentence(claim.owner))
        if (taken := self._states.take()) is not None:
            self._states_arrive.add(taken[1])
        if self._states_arrive.holds(now):
            raise RobotInUseError(self._sentence(self._publisher_of_states()))

    def _publisher_of_states(self) -> str:
        """Return the name of the node whose messages arrive; the name may arrive after its first message."""
        deadline = time.monotonic() + NAMING_TIME
        while time.monotonic() < deadline:
            for publisher in self._node.get_publishers_info_by_topic(JOINT_STATES.name):
                if publisher.node_name != UNNAMED:
                    return str(publisher.node_name)
            time.sleep(_STEP)
        return "another program"

    def _repeated_claims(self, now: float) -> list[Claim]:
        """Take what has arrived; return the claims of others that are repeated."""
        for _ in range(MOST_AT_ONCE):
            if (taken := self._others.take()) is None:
                break
            self._note(Claim.parse(taken[0].data), taken[1], now)
        return [claim for claim, repetition in self._claims.values() if repetition.holds(now)]

    def _note(self, claim: Claim | None, received: float, now: float) -> None:
        if claim is None or claim.owner == self._claim.owner:
            return
        if claim.owner not in self._claims:
            self._claims = {owner: known for owner, known in self._claims.items() if known[1].is_recent(now)}
            if len(self._claims) >= MOST_OWNERS:
                return
        repetition = self._claims[claim.owner][1] if claim.owner in self._claims else Repetition()
        repetition.add(received)
        self._claims[claim.owner] = claim, repetition

    def _sentence(self, who: str) -> str:
        return (
            f"{who} moves this robot already, or publishes {self._node.resolve_topic_name(JOINT_STATES.name)}: another "
            "bridge or simulator is running; stop it, or use a namespace"
        )
