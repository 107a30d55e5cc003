"""The interface that carries commands to a robot and states back, and the order of states by the board's tick."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from unitree_lowlevel.codec import Generation, WireError
from unitree_lowlevel.messages import LowCommand, LowState

Address = tuple[str, int]  # host and UDP port
TRANSPORTS = ("wire", "sdk")
LOCAL_PORT = 8080  # where the vendor's programs listen
RESTART_AFTER = 5  # early ticks in a row
_TICK_RANGE = 2**32


class TransportError(OSError):
    """A robot cannot be reached from here, or a port not be opened; one sentence says why and what to do."""


@dataclass(frozen=True)
class Reception:
    """A state and when it was read [s, time.monotonic]."""

    state: LowState
    received: float


class TickAge(Enum):
    """The age of a state by its tick, relative to the newest before it."""

    NEW = "new"
    DUPLICATE = "duplicate"
    OLD = "old"
    RESTART = "restart"


class TickOrder:
    """Separates overtaken states from new ones by the board's tick, a 32-bit number that wraps round.

    A datagram that was overtaken on the way is early on its own; after a restart of the board all are early, and they
    advance. So RESTART_AFTER early ticks in a row, each later than the one before, are taken for a restart: that holds
    whatever the tick counts (the vendor's headers say milliseconds in one place and microseconds in another).
    """

    def __init__(self) -> None:
        self._newest: int | None = None
        self._early: int | None = None
        self._run = 0

    def classify(self, tick: int) -> TickAge:
        """The age of a state with this tick; NEW and RESTART make it the newest."""
        if self._newest is None or _is_later(tick, self._newest):
            return self._accept(tick, TickAge.NEW)
        if tick == self._newest:
            return TickAge.DUPLICATE
        self._run = self._run + 1 if self._early is not None and _is_later(tick, self._early) else 1
        self._early = tick
        return self._accept(tick, TickAge.RESTART) if self._run >= RESTART_AFTER else TickAge.OLD

    def _accept(self, tick: int, age: TickAge) -> TickAge:
        self._newest, self._early, self._run = tick, None, 0
        return age


@dataclass
class TransportCounters:
    """Datagrams since the transport was opened.

    received: good states, whatever their age; duplicates: those with the tick of the newest; old: those with an
    earlier tick, overtaken on the way; restarts: those that were the first after the robot's tick began anew.
    rejected: datagrams of the robot that were no good states, by WireError kind, and last_rejection, the latest in
    words. foreign: datagrams of other senders, and last_foreign, the latest of them. send_errors, receive_errors:
    datagrams lost to errors of the network.
    """

    received: int = 0
    sent: int = 0
    send_errors: int = 0
    receive_errors: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    last_rejection: str = ""
    foreign: int = 0
    last_foreign: Address | None = None
    duplicates: int = 0
    old: int = 0
    restarts: int = 0
    _order: TickOrder = field(default_factory=TickOrder)

    def reject(self, error: WireError) -> None:
        """Count one datagram that was no good state."""
        self.rejected[error.kind] = self.rejected.get(error.kind, 0) + 1
        self.last_rejection = str(error)

    def accept(self, state: LowState) -> Reception | None:
        """Count one good state; the state as it is read now, or None where it was overtaken on the way."""
        age = self._order.classify(state.tick)
        self.received += 1
        self.duplicates += age is TickAge.DUPLICATE
        self.old += age is TickAge.OLD
        self.restarts += age is TickAge.RESTART
        return None if age is TickAge.OLD else Reception(state, time.monotonic())


class Transport(Protocol):
    """Carries commands and states; neither send nor receive waits, and neither raises for errors of the network."""

    name: str
    counters: TransportCounters

    def open(self) -> None:
        """Get ready to send and receive; raises TransportError."""

    def send(self, command: LowCommand) -> None:
        """Send a command, or count that it could not be sent; WireError for a command that is not finite."""

    def receive(self) -> Reception | None:
        """Read everything that has arrived and return the newest good state, or None where there is none.

        A state with an earlier tick than the newest is dropped, one with the same tick is returned: whether the board's
        clock stands still is checked by the safety monitor.
        """

    def close(self) -> None:
        """Release what open acquired; may be called twice."""


def make_transport(kind: str, generation: Generation, target: Address, local_port: int = LOCAL_PORT) -> Transport:
    """The transport of this kind, one of TRANSPORTS, not yet opened; TransportError for another kind."""
    if kind == "wire":
        from unitree_lowlevel.udp_transport import WireTransport

        return WireTransport(generation, target, local_port)
    if kind == "sdk":
        from unitree_lowlevel.sdk_transport import SdkTransport

        return SdkTransport(generation, target, local_port)
    raise TransportError(f'there is no transport called "{kind}": set it to {" or ".join(TRANSPORTS)}')


def _is_later(tick: int, other: int) -> bool:
    return 0 < (tick - other) % _TICK_RANGE < _TICK_RANGE // 2
