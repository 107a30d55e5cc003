"""Ensures one bridge per robot across computers, by claims on robot_ownership. On one computer a lock does, see
unitree_lowlevel/io_process.py.

Every PERIOD a bridge publishes that it requests the robot ("wants"), or holds it. A claim counts only while it is
repeated, see Repetition.

- A starting bridge listens for DISCOVERY_TIME. It exits if another one holds the robot, or requests it with a smaller
  number. Numbers are random, because clocks of computers differ. The bridge has not moved the robot so far.
- A bridge that holds the robot never gives it up because of a claim. If two hold it, because discovery was late or one
  of them was suspended, both report a conflict. A conflict does not stop motion, but targets may not start to be
  followed until the other claim has ended.

A publisher on robot_ownership can therefore prevent a bridge from starting or following, but cannot stop or move one;
SROS 2 restricts publishers (docs/security.md). Two bridges on different computers that do not discover each other are
detected only by safety checks: lost or foreign packets, and joint_error when their targets differ.
"""

import os
import re
import secrets
import socket
import time
from typing import NamedTuple

from rclpy.node import Node
from std_msgs.msg import String

from fcnet_core.errors import MessageError, RobotInUseError
from fcnet_ros.one_publisher import DISCOVERY_TIME, LONGEST, Company, IdentifiedMessages, Repetition
from fcnet_ros.serialized import CdrReader
from fcnet_ros.topics import IMU, JOINT_STATES, ROBOT_OWNERSHIP

PERIOD = 0.1  # [s] between two messages
MOST_OWNERS = 64  # with stored claims
MOST_AT_ONCE = 50  # messages read per call
CLAIM = re.compile(r"(holds|wants) ([0-9]{1,20}) (.{1,200})")
_STEP = 0.01  # [s]


class Claim(NamedTuple):
    """A claim of a bridge: it requests the robot, or holds it. The smaller one has priority."""

    wants: bool
    number: int
    owner: str

    @classmethod
    def parse(cls, text: str) -> "Claim | None":
        """Parse the text of a message; return None for an invalid one."""
        found = CLAIM.fullmatch(text)
        return cls(found[1] == "wants", int(found[2]), found[3]) if found and found[3].isprintable() else None

    def __str__(self) -> str:
        return f"{'wants' if self.wants else 'holds'} {self.number} {self.owner}"


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
        self._others = IdentifiedMessages(node, ROBOT_OWNERSHIP)
        self._robots = Company(node, JOINT_STATES, IMU)

    def acquire(self) -> None:
        """Claim the robot. Raises RobotInUseError if another program has it, or requests it with priority."""
        began, sent = time.monotonic(), 0.0
        while (now := time.monotonic()) < began + DISCOVERY_TIME or (now < began + LONGEST and self._in_doubt(now)):
            if now >= sent + PERIOD:
                sent = now
                self._send()
            self._refuse_others(now)
            time.sleep(_STEP)
        self._robots.close()  # before this bridge publishes states itself
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
        self._robots.close()
        self._node.destroy_subscription(self._others.subscription)
        self._node.destroy_publisher(self._publisher)

    def _in_doubt(self, now: float) -> bool:
        if any(repetition.is_recent(now) for _claim, repetition in self._claims.values()):
            return True
        claimants = self._node.get_publishers_info_by_topic(ROBOT_OWNERSHIP.name)  # this bridge is one of them
        return len(claimants) > 1 or self._robots.in_doubt()

    def _send(self) -> None:
        self._publisher.publish(String(data=str(self._claim)))

    def _refuse_others(self, now: float) -> None:
        self._robots.check(now)
        for claim in self._repeated_claims(now):
            if self._claim > claim:
                raise RobotInUseError(
                    f"{claim.owner} moves this robot already, or is about to: stop it, or give this robot a namespace "
                    "of its own (namespace:=NAME)"
                )

    def _repeated_claims(self, now: float) -> list[Claim]:
        """Read new messages; return the repeated claims of other bridges."""
        for _ in range(MOST_AT_ONCE):
            if (taken := self._others.take()) is None:
                break
            try:
                claim = Claim.parse(CdrReader(taken[0]).text().decode(errors="replace"))
            except MessageError:
                continue
            if claim is None or claim.owner == self._claim.owner:
                continue
            if claim.owner not in self._claims:
                self._claims = {owner: known for owner, known in self._claims.items() if known[1].is_recent(now)}
                if len(self._claims) >= MOST_OWNERS:
                    continue
            repetition = self._claims[claim.owner][1] if claim.owner in self._claims else Repetition()
            repetition.add(now)
            self._claims[claim.owner] = claim, repetition
        return [claim for claim, repetition in self._claims.values() if repetition.holds(now)]
