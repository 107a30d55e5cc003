"""Ensures one bridge per robot across computers, by claims on robot_ownership. On one computer a lock does, see
unitree_lowlevel/io_process.py.

Every PERIOD a bridge publishes that it requests the robot ("wants"), or holds it. The ROS graph does not prove that
another bridge runs: a killed one remains in it for 20 s, and its successor must not wait. A single message proves
nothing either: a claim counts only while it is repeated, see Repetition.

- A starting bridge listens for DISCOVERY_TIME. It exits if another one holds the robot, or requests it with a smaller
  number. Numbers are random, because clocks of computers differ. The bridge has not moved the robot so far.
- A bridge that holds the robot never gives it up because of a claim. If two hold it, because discovery was late or one
  of them was suspended, both report a conflict. A conflict does not stop motion, but targets may not start to be
  followed until the other claim has ended.

A publisher on robot_ownership can therefore prevent a bridge from starting or following, but cannot stop or move one;
SROS 2 restricts publishers (docs/security.md). Two bridges on different computers that do not discover each other are
detected only by safety checks: lost or foreign packets, and joint_error when their targets differ.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from typing import NamedTuple

from rclpy.node import Node
from std_msgs.msg import String

from fcnet_core.errors import RobotInUseError
from fcnet_ros.topics import JOINT_STATES, ROBOT_OWNERSHIP, PolledSubscription

PERIOD = 0.1  # [s] between two messages
DISCOVERY_TIME = 1.0  # [s] after which messages of others have arrived
LONGEST = 2.0  # [s] if the graph has other publishers whose claims are not confirmed yet
REPETITIONS, REPETITION_TIME, LAPSE = 3, 0.15, 0.5  # see Repetition [-, s, s]
MOST_OWNERS = 64  # with stored claims
MOST_AT_ONCE = 50  # messages read per call
UNNAMED = "_NODE_NAME_UNKNOWN_"  # rmw's name of a node before discovery is complete
CLAIM = re.compile(r"(holds|wants) ([0-9]{1,20}) (.{1,200})")
_STEP = 0.01  # [s]


class Claim(NamedTuple):
    """A claim of a bridge: it requests the robot, or holds it. The smaller one has priority."""

    wants: bool
    number: int
    owner: str

    @classmethod
    def parse(cls, text: str) -> Claim | None:
        """Parse the text of a message; return None for an invalid one."""
        found = CLAIM.fullmatch(text)
        return cls(found[1] == "wants", int(found[2]), found[3]) if found and found[3].isprintable() else None

    def __str__(self) -> str:
        return f"{'wants' if self.wants else 'holds'} {self.number} {self.owner}"


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


class RobotOwnership:
    """This bridge's ownership of the robot in its namespace: `acquire`, `renew` every PERIOD, `release`.

    conflict: the error message while another bridge also holds the robot, else "".
    """

    def __init__(self, node: Node) -> None:
        self.conflict = ""
        self._node = node
        owner = f"{node.get_name()} of process {os.getpid()} on {socket.gethostname()}"
        self._claim = Claim(True, secrets.randbits(63), owner)
        self._claims: dict[str, tuple[Claim, Repetition]] = {}  # of others, by owner
        self._publisher = ROBOT_OWNERSHIP.publisher(node)
        self._others = PolledSubscription(node, ROBOT_OWNERSHIP)
        self._states, self._states_arrive = PolledSubscription(node, JOINT_STATES), Repetition()

    def acquire(self) -> None:
        """Claim the robot. Raises RobotInUseError if another program has it, or requests it with priority."""
        began, sent = time.monotonic(), 0.0
        while (now := time.monotonic()) < began + DISCOVERY_TIME or (now < began + LONGEST and self._in_doubt(now)):
            if now >= sent + PERIOD:
                sent = now
                self._send()
            self._refuse_others(now)
            time.sleep(_STEP)
        self._states.destroy(self._node)  # before this bridge publishes them itself
        self._claim = self._claim._replace(wants=False)
        self._send()

    def renew(self) -> None:
        """Publish the claim and update `conflict`."""
        self._send()
        others = (claim.owner for claim in self._repeated_claims(time.monotonic()) if not claim.wants)
        other = min(others, default="")
        self.conflict = other and (
            f"{other} also holds this robot; targets cannot start until one of the two bridges has exited: stop one of "
            "them, or give it its own namespace"
        )

    def release(self) -> None:
        """Stop claiming the robot."""
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
        owners = [claim.owner for claim in self._repeated_claims(now) if self._claim > claim]
        if (taken := self._states.take()) is not None:
            self._states_arrive.add(taken[1])
        if self._states_arrive.holds(now):
            publishers = self._node.get_publishers_info_by_topic(JOINT_STATES.name)
            owners += [str(each.node_name) for each in publishers if each.node_name != UNNAMED]
            owners.append("another program")
        if owners:
            topic = self._node.resolve_topic_name(JOINT_STATES.name)
            raise RobotInUseError(
                f"{owners[0]} moves this robot already, or publishes {topic}: another bridge or simulator is running; "
                "stop it, or use a namespace"
            )

    def _repeated_claims(self, now: float) -> list[Claim]:
        """Read new messages; return the repeated claims of other bridges."""
        for _ in range(MOST_AT_ONCE):
            if (taken := self._others.take()) is None:
                break
            claim = Claim.parse(taken[0].data)
            if claim is None or claim.owner == self._claim.owner:
                continue
            if claim.owner not in self._claims:
                self._claims = {owner: known for owner, known in self._claims.items() if known[1].is_recent(now)}
                if len(self._claims) >= MOST_OWNERS:
                    continue
            repetition = self._claims[claim.owner][1] if claim.owner in self._claims else Repetition()
            repetition.add(taken[1])
            self._claims[claim.owner] = claim, repetition
        return [claim for claim, repetition in self._claims.values() if repetition.holds(now)]
