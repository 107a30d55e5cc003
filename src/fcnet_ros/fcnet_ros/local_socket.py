"""Transport of joint targets and gains by a local socket, between programs of one user and of root."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from rclpy.node import Node

from fcnet_core.control.timing import NEVER
from fcnet_core.errors import FcnetError, RefusedCommandError
from fcnet_ros.serialized import MAX_SIZE

if TYPE_CHECKING:
    from fcnet_ros.targets import JointCommand

MAX_CONNECTIONS = 8
MAX_PACKETS = 64  # read from a connection in one cycle
RECONNECT_PERIOD = 0.1  # [s]
TARGETS, GAINS, IDENTIFY = b"T", b"G", b"H"  # first byte of a packet on the local socket
IDENTITY_SIZE = 16  # [bytes]
CREDENTIALS = struct.Struct("3i")  # process, user, group


def socket_name(node: Node) -> str:
    """Return the abstract socket name of the robot in the node's domain and namespace."""
    return f"\0fcnet/{node.context.get_domain_id()}{node.get_namespace().rstrip('/')}/targets"


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return process id and user id of the other end of a local socket."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    process, user, _group = CREDENTIALS.unpack(credentials)
    return process, user


def is_trusted(user: int) -> bool:
    """Whether a user may command this process's robot: the process's own user and root."""
    return user in (0, os.geteuid())


class LocalTargets:
    """Targets from a local socket, of programs of this process's user and of root.

    command: returns the command in a message, see TargetValidator. gains: the newest serialised joint_gains.
    """

    def __init__(self, name: str, command: Callable[[bytes, int, str], JointCommand]) -> None:
        """Bind the socket. Raises FcnetError if another program has bound it."""
        self.gains: deque[bytes] = deque(maxlen=1)
        self._command = command
        self._sources: dict[socket.socket, str] = {}  # by connection, empty until it has identified itself
        self._refusal = ""
        self._waiting: deque[JointCommand] = deque()
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._server.bind(name)
        except OSError as error:
            self._server.close()
            found = f"another program has the socket {name[1:]} ({error.strerror})"
            raise FcnetError(f"targets_over=local: {found}; end it") from error
        self._server.listen(MAX_CONNECTIONS)
        self._server.setblocking(False)

    def take(self) -> JointCommand | None:
        """Return the newest command of the next connection that has sent one, None if none has.

        Raises RefusedCommandError, but not before the commands of all other connections were returned.
        """
        if not self._waiting:
            self._accept()
            for connection in list(self._sources):
                self._receive(connection)
        if self._waiting:
            return self._waiting.popleft()
        if self._refusal:
            refusal, self._refusal = self._refusal, ""
            raise RefusedCommandError(refusal)
        return None

    def close(self) -> None:
        """End all connections."""
        for one in (self._server, *self._sources):
            one.close()

    def _accept(self) -> None:
        try:
            accepted, _ = self._server.accept()
        except (BlockingIOError, ConnectionError):
            return
        process, user = peer(accepted)
        if is_trusted(user) and len(self._sources) < MAX_CONNECTIONS:
            accepted.setblocking(False)
            self._sources[accepted] = ""
            return
        accepted.close()
        self._refusal = f"more than {MAX_CONNECTIONS} programs are connected to command this robot"
        if not is_trusted(user):
            found = f"process {process} of user {user}"
            self._refusal = f"{found} may not command this robot; run it as user {os.geteuid()}"

    def _receive(self, connection: socket.socket) -> None:
        """Validate the newest targets of a connection and drop older ones."""
        source, newest = self._sources[connection], None
        for _ in range(MAX_PACKETS):
            try:
                packet = connection.recv(MAX_SIZE + 2)
            except BlockingIOError:
                break
            except OSError:
                packet = b""
            kind, content = packet[:1], packet[1:]
            if kind == IDENTIFY and len(content) == IDENTITY_SIZE and not source:
                source = self._sources[connection] = f"process {peer(connection)[0]} {content.hex()}"
            elif kind == TARGETS and source:
                newest = content
            elif kind == GAINS and source:
                self.gains.append(content)
            else:  # closed, or a protocol violation
                connection.close()
                del self._sources[connection]
                break
        if newest is not None:
            try:
                self._waiting.append(self._command(newest, time.time_ns(), source))
            except RefusedCommandError as error:
                self._refusal = str(error)


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
        if self._socket is None and time.monotonic() - self._tried >= RECONNECT_PERIOD:
            self._connect()
        try:
            if self._socket is not None:
                self._socket.send(packet)
        except BlockingIOError:
            return  # the bridge's queue is full
        except OSError:
            self.close()

    def _connect(self) -> None:
        self._tried = time.monotonic()
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
        else:
            self._socket = connection
