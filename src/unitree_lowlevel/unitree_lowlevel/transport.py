"""What carries commands to a robot and states back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from unitree_lowlevel.codec import Generation
from unitree_lowlevel.messages import LowCommand, LowState

Address = tuple[str, int]
TRANSPORTS = ("wire", "sdk")
LOCAL_PORT = 8080  # where the vendor's programs listen


class TransportError(RuntimeError):
    """A robot cannot be reached from here; one sentence says why and what to do."""


@dataclass(frozen=True)
class Reception:
    """A state and when it was read [s, time.monotonic]."""

    state: LowState
    received: float


@dataclass
class TransportCounters:
    """What has happened since the transport was opened; all count datagrams.

    received: good states, whatever their age; duplicates: those with the tick of the newest; old: those with an
    earlier tick, overtaken on the way; restarts: those that were the first after the robot's tick began anew.
    rejected: datagrams from the robot that were no good states, by WireError kind, and last_rejection, the latest in
    words. foreign: datagrams from elsewhere, and last_foreign, where the latest came from. send_errors,
    receive_errors: times that the network refused, and a datagram was lost.
    """

    received: int = 0
    sent: int = 0
    send_errors: int = 0
    receive_errors: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    last_rejection: str = ""
    foreign: int = 0
    last_foreign: tuple[str, int] | None = None
    duplicates: int = 0
    old: int = 0
    restarts: int = 0

    def reject(self, kind: str, sentence: str) -> None:
        """Count one datagram that was no good state."""
        self.rejected[kind] = self.rejected.get(kind, 0) + 1
        self.last_rejection = sentence

    def count(self, age: Age) -> None:
        """Count one good state of this age."""
        self.received += 1
        self.duplicates += age is Age.SAME
        self.old += age is Age.OLD
        self.restarts += age is Age.RESTART


class Transport(Protocol):
    """Carries commands and states; neither send nor receive waits, and neither raises for what the network does."""

    name: str
    counters: TransportCounters

    def open(self) -> None:
        """Get ready to send and receive; raises TransportError with a sentence that says what to do."""

    def send(self, command: LowCommand) -> None:
        """Send a command, or count that it could not be sent; WireError for a command that is not finite."""

    def receive(self) -> Reception | None:
        """Read everything that has arrived and return the newest good state, or None where there is none.

        An earlier tick than the newest never comes back, the same tick does: whether the robot's time stands still is
        for the safety to judge.
        """

    def close(self) -> None:
        """Give back what open took; may be called twice."""


_PERIOD = 2**32
RESTART_AFTER = 5  # early ticks in a row


class Age(Enum):
    """How a tick stands to the newest before it."""

    NEW = "new"
    SAME = "same"
    OLD = "old"
    RESTART = "restart"


class TickOrder:
    """Tells overtaken states from new ones by the board's tick, a 32-bit number that wraps round.

    A datagram that was overtaken on the way is early on its own; after the board has started anew all are early, and
    they advance. So RESTART_AFTER early ticks in a row, each later than the one before, are taken for a restart: that
    holds whatever the tick counts (the vendor's headers say milliseconds in one place and microseconds in another).
    """

    def __init__(self) -> None:
        self._newest: int | None = None
        self._early: int | None = None
        self._run = 0

    def judge(self, tick: int) -> Age:
        """The age of a state with this tick; NEW and RESTART make it the newest."""
        if self._newest is None or _is_later(tick, self._newest):
            return self._accept(tick, Age.NEW)
        if tick == self._newest:
            return Age.SAME
        self._run = self._run + 1 if self._early is not None and _is_later(tick, self._early) else 1
        self._early = tick
        if self._run >= RESTART_AFTER:
            return self._accept(tick, Age.RESTART)
        return Age.OLD

    def _accept(self, tick: int, age: Age) -> Age:
        self._newest, self._early, self._run = tick, None, 0
        return age


def _is_later(tick: int, other: int) -> bool:
    return 0 < (tick - other) % _PERIOD < _PERIOD // 2


def make_transport(kind: str, generation: Generation, target: Address, local_port: int = LOCAL_PORT) -> Transport:
    """The transport of this kind, one of TRANSPORTS, not yet opened; TransportError for another kind."""
    if kind == "wire":
        from unitree_lowlevel.udp_transport import WireTransport

        return WireTransport(generation, target, local_port)
    if kind == "sdk":
        from unitree_lowlevel.sdk_transport import SdkTransport

        return SdkTransport(generation, target, local_port)
    raise TransportError(f'there is no transport called "{kind}": set it to {" or ".join(TRANSPORTS)}')
