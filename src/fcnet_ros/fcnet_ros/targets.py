"""Transport of joint targets to a robot: by DDS, or by a local socket between programs of one user.

Every message is validated first: its size and layout, its stamp against this computer's clock, and that the stamps of
a sender advance. The age of a message is measured here: if it took longer than others of its sender, it waited for that
long in a queue or in a stopped process.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rclpy.duration import Duration
from rclpy.node import Node

from fcnet_core.arrays import Array
from fcnet_core.control.limiter import JointCommand, joint_targets
from fcnet_core.control.timing import NEVER
from fcnet_core.errors import FcnetError, MessageError, RefusedCommandError
from fcnet_core.names import SECOND
from fcnet_core.observation import LABEL, SIZE, PolicyStep
from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.publisher_identity import IdentifyingTaker, PublisherNames, gid_of
from fcnet_ros.serialized import MAX_SIZE, JointMessageReader, TrajectoryBuffer, numbers_buffer, seconds
from fcnet_ros.topics import JOINT_TRAJECTORY, POLICY_STEP, PolledSubscription, Topic

WAYS = ("dds", "local")
WAY = "transport of targets and gains: dds, or local, a socket of this computer for programs of this user and of root"
STAMP_TOLERANCE = SECOND // 2  # [ns] between a message's stamp and this computer's clock
MAX_SOURCES = 64  # senders whose stamps are stored, each for as long as an old stamp would be accepted
CLOCK_DRIFT = 0.01  # [s/s] rate at which the shortest delay grows, as a clock may be adjusted
MAX_CONNECTIONS = 8
MAX_PACKETS = 64  # read from a connection in one cycle
RECONNECT_PERIOD = 0.1  # [s]
TARGETS, GAINS, IDENTIFY = b"T", b"G", b"H"  # first byte of a packet on the local socket
IDENTITY_SIZE = 16  # [bytes]
CREDENTIALS = struct.Struct("3i")  # process, user, group


class TargetsMessage(NamedTuple):
    """Position targets (12,) [rad] in JOINT_NAMES order, None for damping. stamp [ns]."""

    stamp: int
    targets: Array | None


class TargetReader:
    """Reads serialised joint_trajectory messages."""

    def __init__(self) -> None:
        self._reader = JointMessageReader()

    def read(self, content: bytes) -> TargetsMessage:
        """Read the message's one point. Raises RefusedCommandError if no robot should follow it."""
        try:
            message = self._reader.read_trajectory(content)
        except MessageError as error:
            raise RefusedCommandError(f"joint_trajectory: {error}") from error
        targets = joint_targets(JOINT_NAMES, message.names, message.positions, message.velocities, message.efforts)
        return TargetsMessage(message.stamp, targets)


@dataclass
class _Sender:
    stamp: int = 0  # [ns] of its newest message
    delay: int = 2**62  # [ns] the shortest recent time from stamp to arrival


class TargetValidator:
    """Turns serialised joint_trajectory messages into commands. clock: the robot's, wall-clock or simulated [ns]."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._reader = TargetReader()
        self._senders: dict[str, _Sender] = {}
        self._newest = 0

    def command(self, content: bytes, arrived: int, source: str) -> JointCommand:
        """Return the command in a message of `source`; arrived [ns, wall-clock time].

        Raises RefusedCommandError if it must not be followed.
        """
        message, now = self._reader.read(content), self._clock()
        if now < self._newest:
            self._senders.clear()  # the clock was set back, and so are the next stamps
        self._newest = now
        if not message.stamp:
            raise RefusedCommandError("joint_trajectory has no stamp; set header.stamp to the time of sending")
        if abs(now - message.stamp) > STAMP_TOLERANCE:
            raise RefusedCommandError(
                f"the stamp of joint_trajectory is {(message.stamp - now) / SECOND:+.1f} s from this computer's clock, "
                f"the limit is {STAMP_TOLERANCE / SECOND:g} s; synchronise the clocks; recorded targets are refused"
            )
        sender = self._sender(source, now)
        if message.stamp <= sender.stamp:
            raise RefusedCommandError("the stamp of joint_trajectory does not advance; send each message once")
        waited = max(0, time.time_ns() - arrived)
        delay = now - waited - message.stamp
        sender.delay = min(delay, sender.delay + int(CLOCK_DRIFT * (message.stamp - sender.stamp)))
        sender.stamp = message.stamp
        self._senders[source] = sender
        received = time.monotonic() - (waited + delay - sender.delay) / SECOND
        return JointCommand(message.targets, received, source, message.stamp)

    def _sender(self, source: str, now: int) -> _Sender:
        if (sender := self._senders.get(source)) is not None:
            return sender
        if len(self._senders) >= MAX_SOURCES:
            oldest = now - STAMP_TOLERANCE
            self._senders = {name: one for name, one in self._senders.items() if one.stamp >= oldest}
        if len(self._senders) >= MAX_SOURCES:
            raise RefusedCommandError(f"more than {MAX_SOURCES} programs publish joint_trajectory; end them")
        return _Sender()


class DdsTargets:
    """Targets from the topic, of any publisher; the middleware keeps the newest message."""

    def __init__(self, node: Node, validator: TargetValidator) -> None:
        self._names, self._validator = PublisherNames(node, JOINT_TRAJECTORY.name), validator
        self._taker = IdentifyingTaker(PolledSubscription(node, JOINT_TRAJECTORY).subscription)

    def take(self) -> JointCommand | None:
        """Return the newest command, None if there is none. Raises RefusedCommandError."""
        if (taken := self._taker.take()) is None:
            return None
        return self._validator.command(taken.content, taken.received, self._names.text(taken.publisher))


def socket_name(node: Node) -> str:
    """Return the abstract socket name of the robot in the node's domain and namespace."""
    return f"\0fcnet/{node.context.get_domain_id()}{node.get_namespace().rstrip('/')}/targets"


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return process id and user id of the other end of a local socket."""
    process, user, _ = CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    )
    return process, user


def is_trusted(user: int) -> bool:
    """Whether a user may command this process's robot: the process's own user and root."""
    return user in (0, os.geteuid())


@dataclass
class _Connection:
    socket: socket.socket
    source: str = ""  # empty until it has identified itself


class LocalTargets:
    """Targets from a local socket, of programs of this process's user and of root.

    gains: the newest serialised joint_gains; on_gains: called when `gains` has changed.
    """

    def __init__(self, name: str, validator: TargetValidator, on_gains: Callable[[], None]) -> None:
        """Bind the socket. Raises FcnetError if another program has bound it."""
        self.gains: deque[bytes] = deque(maxlen=1)
        self._validator, self._on_gains = validator, on_gains
        self._connections: list[_Connection] = []
        self._refusal = ""
        self._waiting: deque[JointCommand] = deque()
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._server.bind(name)
        except OSError as error:
            self._server.close()
            raise FcnetError(
                f"targets_over=local: another program has the socket {name[1:]} ({error.strerror}); end it"
            ) from error
        self._server.listen(MAX_CONNECTIONS)
        self._server.setblocking(False)

    def take(self) -> JointCommand | None:
        """Return the newest command of the next connection that has sent one, None if none has.

        Raises RefusedCommandError, but not before the commands of all other connections were returned.
        """
        if not self._waiting:
            self._accept()
            for connection in list(self._connections):
                if (content := self._receive(connection)) is not None:
                    try:
                        self._waiting.append(self._validator.command(content, time.time_ns(), connection.source))
                    except RefusedCommandError as error:
                        self._refusal = str(error)
        if self._waiting:
            return self._waiting.popleft()
        if self._refusal:
            refusal, self._refusal = self._refusal, ""
            raise RefusedCommandError(refusal)
        return None

    def close(self) -> None:
        """End all connections."""
        for one in (self._server, *(connection.socket for connection in self._connections)):
            one.close()

    def _accept(self) -> None:
        try:
            accepted, _ = self._server.accept()
        except (BlockingIOError, ConnectionError):
            return
        process, user = peer(accepted)
        if not is_trusted(user) or len(self._connections) >= MAX_CONNECTIONS:
            self._refusal = (
                f"process {process} of user {user} may not command this robot; run it as user {os.geteuid()}"
                if not is_trusted(user)
                else f"more than {MAX_CONNECTIONS} programs are connected to command this robot"
            )
            accepted.close()
            return
        accepted.setblocking(False)
        self._connections.append(_Connection(accepted))

    def _receive(self, connection: _Connection) -> bytes | None:
        """Return the newest targets of a connection and drop older ones."""
        newest = None
        for _ in range(MAX_PACKETS):
            try:
                packet = connection.socket.recv(MAX_SIZE + 2)
            except BlockingIOError:
                break
            except OSError:
                packet = b""
            kind, content = packet[:1], packet[1:]
            if kind == IDENTIFY and len(content) == IDENTITY_SIZE and not connection.source:
                process, _ = peer(connection.socket)
                connection.source = f"process {process} {content.hex()}"
            elif kind == TARGETS and connection.source:
                newest = content
            elif kind == GAINS and connection.source:
                self.gains.append(content)
                self._on_gains()
            else:  # closed, or a protocol violation
                connection.socket.close()
                self._connections.remove(connection)
                break
        return newest


class LocalSender:
    """Sends targets and gains to a bridge's local socket, and reconnects if the bridge was restarted.

    Never blocks: a message that cannot be sent now is dropped. Gains are sent again with every connection. identity:
    random bytes by which the bridge names this sender.
    """

    def __init__(self, name: str) -> None:
        self.identity = os.urandom(IDENTITY_SIZE)
        self._name = name
        self._gains: bytes | None = None
        self._socket: socket.socket | None = None
        self._tried = NEVER

    def send(self, content: bytes) -> None:
        """Send a serialised joint_trajectory."""
        self._send(TARGETS + content)

    def send_gains(self, content: bytes) -> None:
        """Send a serialised joint_gains, now and with every later connection."""
        self._gains = content
        self._send(GAINS + content)

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, packet: bytes) -> None:
        if self._socket is None and not self._connect():
            return
        assert self._socket is not None
        try:
            self._socket.send(packet)
        except BlockingIOError:
            return  # the bridge's queue is full
        except OSError:
            self.close()

    def _connect(self) -> bool:
        now = time.monotonic()
        if now - self._tried < RECONNECT_PERIOD:
            return False
        self._tried = now
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setblocking(False)
        try:
            connection.connect(self._name)
            if not is_trusted(peer(connection)[1]):
                raise PermissionError
            for packet in (IDENTIFY + self.identity, *([GAINS + self._gains] if self._gains else [])):
                connection.send(packet)
        except OSError:
            connection.close()
            return False
        self._socket = connection
        return True


class TargetPublisher:
    """Publishes joint_trajectory with one point: positions, or velocities of zero alone, which mean damping.

    With a local sender it sends the same message there too: the robot follows that one, and the topic is for observers.
    For recordings it publishes ~/policy_step: the inputs of a step of the policy (fcnet_core/observation.py). For one
    thread at a time.
    """

    def __init__(
        self,
        node: Node,
        targets: Topic = JOINT_TRAJECTORY,
        steps: Topic = POLICY_STEP,
        local: LocalSender | None = None,
    ) -> None:
        self.publishers = [targets.publisher(node), steps.publisher(node)]
        self._clock, self._local = node.get_clock(), local
        self._message = TrajectoryBuffer(JOINT_NAMES)
        self._step = numbers_buffer(LABEL, SIZE)
        self._previous_stamp = self._stamp = 0.0
        self._sent = b""

    @property
    def identity(self) -> bytes:
        """The identity by which the robot names this sender (see `is_own`); empty if unknown."""
        return gid_of(self.publishers[0]) if self._local is None else self._local.identity

    def publish(self, target: Array | None, stamp: int | None = None) -> None:
        """Send position targets (12,) [rad], None for damping; stamp [ns]: None for now."""
        sent = int(self._clock.now().nanoseconds) if stamp is None else stamp
        content = self._message.write(sent, target)
        if self._local is not None:
            self._local.send(content)
        self.publishers[0].publish(content)
        self._sent = content
        self._previous_stamp, self._stamp = self._stamp, seconds(sent)

    def repeat(self) -> None:
        """Send the last message again, for a simulator that did not receive it."""
        if self._local is not None:
            self._local.send(self._sent)
        self.publishers[0].publish(self._sent)

    def close(self) -> None:
        """Close the connection to the local socket, if there is one."""
        if self._local is not None:
            self._local.close()

    def wait_until_received(self, timeout: float) -> None:
        """Return when every reliable subscriber has received the targets, or after `timeout` [s]."""
        self.publishers[0].wait_for_all_acked(Duration(seconds=timeout))

    def publish_step(self, step: PolicyStep) -> None:
        """Publish the inputs of the policy for the targets just sent."""
        values = step.vector()
        values[:2] = self._stamp, self._previous_stamp
        self.publishers[1].publish(self._step.write(None, values))
