"""Transports of commands to a robot and states from it: over one UDP socket, or another one of the same interface."""

import math
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol

from fcnet_core.errors import TransportError, WireError
from unitree_lowlevel.codec import Generation, LowCommand, LowState, decode_state, encode_command
from unitree_lowlevel.network import Address, bound_socket, check_target

TRANSPORTS = ("wire", "sdk")
LOCAL_PORT = 8080  # the port of the vendor's programs
LONGEST_DATAGRAM = 2048  # bytes; a longer datagram is cut here and rejected for its size
RESTART_AFTER = 5  # early ticks in a row
_MOST_PER_CALL = 256  # more states than the socket's buffer holds; bounds the time of a call during a flood


@dataclass(frozen=True)
class Reception:
    """A state and when it was read [s, time.monotonic]."""

    state: LowState
    received: float


TickAge = Literal["new", "duplicate", "old", "restart"]  # by a state's tick, relative to the newest before it


class TickOrder:
    """Separates overtaken states from new ones by the board's tick, a 32-bit number that wraps around.

    An overtaken datagram has a single early tick; after a restart of the board all ticks are early, and increase. So
    RESTART_AFTER early ticks in a row, each later than the previous one, count as a restart. This does not depend on
    the unit of the tick (the vendor's headers state both milliseconds and microseconds).
    """

    def __init__(self) -> None:
        self._newest: int | None = None
        self._early: int | None = None
        self._run = 0

    def classify(self, tick: int) -> TickAge:
        """Return the age of a state with this tick; "new" and "restart" make it the newest."""
        age: TickAge = "new"
        if self._newest is not None and not _is_later(tick, self._newest):
            if tick == self._newest:
                return "duplicate"
            self._run = self._run + 1 if self._early is not None and _is_later(tick, self._early) else 1
            self._early = tick
            if self._run < RESTART_AFTER:
                return "old"
            age = "restart"
        self._newest, self._early, self._run = tick, None, 0
        return age


def _is_later(tick: int, other: int) -> bool:
    return 0 < (tick - other) % 2**32 < 2**31


@dataclass
class TransportCounters:
    """Datagrams since the transport was opened.

    received: valid states of any age. duplicates: of these, states with the tick of the newest. old: with an earlier
    tick, overtaken by the network. restarts: first states after a restart of the robot's tick. rejected: invalid
    datagrams of the robot, by WireError kind; last_rejection: text of the latest. foreign: datagrams of other senders;
    last_foreign: address of the latest. send_errors: commands that the network refused.
    """

    received: int = 0
    sent: int = 0
    send_errors: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    last_rejection: str = ""
    foreign: int = 0
    last_foreign: Address = ("", 0)
    duplicates: int = 0
    old: int = 0
    restarts: int = 0
    _order: TickOrder = field(default_factory=TickOrder)

    def reject(self, error: WireError) -> None:
        """Count one invalid datagram."""
        self.rejected[error.kind] = self.rejected.get(error.kind, 0) + 1
        self.last_rejection = str(error)

    def take(self, decode: Callable[[], LowState]) -> Reception | None:
        """Count one datagram; return its state with the current time, or None if it is invalid or was overtaken."""
        try:
            state = decode()
        except WireError as error:
            self.reject(error)
            return None
        age = self._order.classify(state.tick)
        self.received += 1
        self.duplicates += age == "duplicate"
        self.old += age == "old"
        self.restarts += age == "restart"
        return None if age == "old" else Reception(state, time.monotonic())


class Transport(Protocol):
    """Sends commands and receives states. Neither waits, and neither raises for errors of the network."""

    counters: TransportCounters

    def open(self) -> None:
        """Open the socket; raises TransportError."""

    def send(self, command: LowCommand, until: float = math.inf) -> None:
        """Send a command, or count the failure; raises WireError for a non-finite command.

        Nothing is sent after `until` [s, time.monotonic]: a process that is stopped between decision and sending must
        not send an outdated command when it continues.
        """

    def receive(self) -> Reception | None:
        """Read all received datagrams and return the newest valid state, or None.

        A state with an earlier tick than the newest is dropped. One with the same tick is returned: the safety monitor
        checks for a frozen clock of the board.
        """

    def fileno(self) -> int | None:
        """Return the file descriptor of the open socket to the robot; None if unknown."""

    def close(self) -> None:
        """Close the socket; may be called twice."""


class WireTransport:
    """Sends commands to the target, and accepts states only from its address and port.

    target: host and port of the robot. local_port: this computer's port, 0 for any free one.
    """

    def __init__(self, generation: Generation, target: Address, local_port: int = LOCAL_PORT) -> None:
        self.counters = TransportCounters()
        self._generation = generation
        self._target = target
        self._requested_port = local_port
        self._socket: socket.socket | None = None

    def open(self) -> None:
        self.close()
        self._target, _local = check_target(self._target, self._requested_port)
        self._socket = bound_socket(self._requested_port)
        self.counters = TransportCounters()

    def send(self, command: LowCommand, until: float = math.inf) -> None:
        datagram, endpoint = encode_command(self._generation, command), self._open_socket()
        if time.monotonic() > until:
            return
        try:
            endpoint.sendto(datagram, self._target)
            self.counters.sent += 1
        except OSError:
            self.counters.send_errors += 1

    def receive(self) -> Reception | None:
        newest, endpoint = None, self._open_socket()
        for _ in range(_MOST_PER_CALL):
            try:
                datagram, source = endpoint.recvfrom(LONGEST_DATAGRAM)
            except BlockingIOError:
                break
            except OSError:
                continue
            if source != self._target:
                self.counters.foreign += 1
                self.counters.last_foreign = source
                continue
            newest = self.counters.take(partial(decode_state, self._generation, datagram)) or newest
        return newest

    def fileno(self) -> int:
        return self._open_socket().fileno()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise TransportError("the transport is not open: open it first")
        return self._socket


def make_transport(kind: str, generation: Generation, target: Address, local_port: int = LOCAL_PORT) -> Transport:
    """Return a transport of this kind, one of TRANSPORTS, not yet open."""
    if kind == "sdk":
        from unitree_lowlevel.sdk_transport import SdkTransport

        return SdkTransport(generation, target, local_port)
    return WireTransport(generation, target, local_port)
