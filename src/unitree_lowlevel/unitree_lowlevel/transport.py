"""What carries commands to a robot and states back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from unitree_lowlevel.low_command import LowCommand
from unitree_lowlevel.low_state import LowState
from unitree_lowlevel.tick_order import Age


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
