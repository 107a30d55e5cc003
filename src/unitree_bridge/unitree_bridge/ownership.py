"""One bridge for a robot: ownership on this computer by a lock, on others by a topic."""

from __future__ import annotations

import errno
import os
import socket
import time
from dataclasses import dataclass

from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from fcnet_ros.state import PolledSubscription

# One bridge for a robot on this computer, whatever ROS knows.

class RobotLock:
    """Held from `take` to `release`; the system releases it at once when its process dies.

    It is the name of a socket that nobody talks to: a file would outlive its owner.
    """

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def take(self, target: tuple[str, int]) -> bool:
        """Take the robot at this address, host and port; False where another process of this computer has it."""
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind("\0fcnet-robot-{}:{}".format(*target))
        except OSError as error:
            held.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        self._socket = held
        return True

    def release(self) -> None:
        """Let others have the robot."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


# One bridge for a robot: who commands it says so ten times a second on robot_claim, and others leave it alone.
#
# ROS's graph is not believed: a bridge that was killed stays in it for 20 s, and its successor must not wait; only
# who is heard counts. Since ROS may take seconds until two programs hear each other, whoever holds a robot goes on
# listening.

TOPIC = "robot_claim"
STATES = "joint_states"
PERIOD = 0.1  # [s] between two messages
DISCOVERY_TIME = 1.0  # [s] after which others have been heard
LONGEST = 1.5  # [s] for those whom the graph knows, and who have not been heard
NAMING_TIME = 1.0  # [s]
UNNAMED = "_NODE_NAME_UNKNOWN_"  # what rmw calls a node whose name has not come yet
_STEP = 0.01  # [s]


class RobotClaimedError(RuntimeError):
    """Somebody else moves this robot; one sentence says who and what to do."""


@dataclass(frozen=True)
class Claim:
    """Who wants the robot, or holds it already, and since when [ns, time of day]."""

    holds: bool
    since: int
    owner: str

    def yields_to(self, other: Claim) -> bool:
        """Whether the other one has more right to the robot: to hold it is more, then to have come first.

        No claim yields to itself, which comes back to who has sent it.
        """
        return (not self.holds, self.since, self.owner) > (not other.holds, other.since, other.owner)

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'wants'} {self.since} {self.owner}"


class RobotClaim:
    """This bridge's right to the robot of its namespace: `win` it, `renew` it every PERIOD, `release` it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        owner = f"{node.get_name()} of process {os.getpid()} on {socket.gethostname()}"
        self._claim = Claim(False, time.time_ns(), owner)
        self._publisher = node.create_publisher(String, TOPIC, 10)
        self._others = PolledSubscription(node, String, TOPIC, QoSProfile(depth=10))
        self._states = PolledSubscription(node, JointState, STATES, qos_profile_sensor_data)

    def win(self) -> None:
        """Listen for a second; raises RobotClaimedError when somebody else has the robot, or began earlier."""
        began, said = time.monotonic(), 0.0
        while (now := time.monotonic()) < began + DISCOVERY_TIME or (now < began + LONGEST and self._in_doubt()):
            if now >= said + PERIOD:
                said = now
                self._say()
            self._refuse_others()
            time.sleep(_STEP)
        self._states.destroy(self._node)  # before this bridge publishes them itself
        self._claim = Claim(True, self._claim.since, self._claim.owner)
        self._say()

    def renew(self) -> str | None:
        """Say that the robot is taken; returns a sentence when somebody else has it with more right."""
        self._say()
        rival = self._rival()
        return None if rival is None else self._sentence(rival.owner)

    def release(self) -> None:
        """Let others have the robot."""
        self._states.destroy(self._node)
        self._others.destroy(self._node)
        self._node.destroy_publisher(self._publisher)

    def _in_doubt(self) -> bool:
        claimants = self._node.get_publishers_info_by_topic(TOPIC)  # this bridge is one of them
        return len(claimants) > 1 or bool(self._node.get_publishers_info_by_topic(STATES))

    def _say(self) -> None:
        self._publisher.publish(String(data=str(self._claim)))

    def _refuse_others(self) -> None:
        if rival := self._rival():
            raise RobotClaimedError(self._sentence(rival.owner))
        if self._states.take() is not None:
            raise RobotClaimedError(self._sentence(self._publisher_of_states()))

    def _publisher_of_states(self) -> str:
        """The node that was heard; its name may come after its first message."""
        deadline = time.monotonic() + NAMING_TIME
        while time.monotonic() < deadline:
            for publisher in self._node.get_publishers_info_by_topic(STATES):
                if publisher.node_name != UNNAMED:
                    return str(publisher.node_name)
            time.sleep(_STEP)
        return "another program"

    def _rival(self) -> Claim | None:
        """Whoever has said since the last look that the robot is rather theirs."""
        rival = None
        while (message := self._others.take()) is not None:
            other = _read(message.data)
            if other is not None and self._claim.yields_to(other):
                rival = other
        return rival

    def _sentence(self, who: str) -> str:
        return (
            f"{who} moves this robot already, or publishes {self._node.resolve_topic_name(STATES)}: another bridge or "
            "simulator is running; stop it, or use a namespace"
        )


def _read(text: str) -> Claim | None:
    """A claim in words; None for what is none."""
    words = text.split(maxsplit=2)
    if len(words) != 3 or not words[1].isdecimal():
        return None
    return Claim(words[0] == "holds", int(words[1]), words[2])
