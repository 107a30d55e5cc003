"""What carries commands to a robot and states back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from unitree_lowlevel.low_command import LowCommand
from unitree_lowlevel.low_state import LowState


class TransportError(OSError):
    """A robot cannot be reached from here; one sentence says why and what to do."""


@dataclass(frozen=True)
class Reception:
    """A state and when it was read [s, time.monotonic]."""

    state: LowState
    received: float


@dataclass
class TransportCounters:
    """What has happened since the transport was opened; all count datagrams.

    received: good states, also those that were old or duplicates; rejected: datagrams from the robot that were no
    good states, by WireError kind; foreign: from somebody else, last_foreign is the latest such address; duplicates:
    states with the tick of the newest; old: states with an earlier tick, overtaken on the way; restarts: of the
    robot's tick; receive_errors, send_errors: refused by the network, and lost.
    """

    received: int = 0
    sent: int = 0
    send_errors: int = 0
    receive_errors: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    foreign: int = 0
    last_foreign: tuple[str, int] | None = None
    duplicates: int = 0
    old: int = 0
    restarts: int = 0

    def reject(self, kind: str) -> None:
        """Count one datagram that was no good state."""
        self.rejected[kind] = self.rejected.get(kind, 0) + 1


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
