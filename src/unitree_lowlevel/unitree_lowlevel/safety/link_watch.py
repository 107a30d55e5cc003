"""What else comes over the network, told to whoever looks for the cause of trouble."""

from __future__ import annotations

from unitree_lowlevel.safety.trip import Finding, Severity
from unitree_lowlevel.transport import TransportCounters

NOT_FINITE = "not_finite"
FOREIGN = "foreign_packets"
REJECTED = "rejected_packets"
UNSENT = "unsent_commands"


class LinkWatch:
    """Tells of an event for `memory` [s] after it has happened."""

    def __init__(self, memory: float = 1.0) -> None:
        self._memory = memory
        self._counts: dict[str, int] = {}
        self._times: dict[str, float] = {}

    def see(self, now: float, counters: TransportCounters) -> None:
        """Compare the transport's counters at time `now` [s] with those before."""
        for event, count in counters.rejected.items():
            self._count(now, event, count)
        self._count(now, FOREIGN, counters.foreign)
        self._count(now, UNSENT, counters.send_errors)

    def rejection(self, now: float, counters: TransportCounters) -> str | None:
        """Why packets of the robot were no good states, when there have been such lately."""
        lately = any(now - time <= self._memory for event, time in self._times.items() if event in counters.rejected)
        return counters.last_rejection if lately else None

    def check(self, now: float, counters: TransportCounters) -> list[Finding]:
        """What has happened lately. Values that are not finite the codec refuses; they are no reason to go on."""
        found = {
            _name(event): _finding(event, counters) for event, time in self._times.items() if now - time <= self._memory
        }
        return list(found.values())

    def _count(self, now: float, event: str, count: int) -> None:
        if count > self._counts.get(event, 0):
            self._times[event] = now
        self._counts[event] = count


def _name(event: str) -> str:
    return event if event in (NOT_FINITE, FOREIGN, UNSENT) else REJECTED


def _finding(event: str, counters: TransportCounters) -> Finding:
    if event == NOT_FINITE:
        sentence = "the robot sends values that are not finite numbers; restart the robot"
        return Finding(NOT_FINITE, sentence, Severity.NO_FOLLOWING)
    if event == FOREIGN:
        sender = "somebody" if counters.last_foreign is None else "{}:{}".format(*counters.last_foreign)
        return Finding(FOREIGN, f"packets of {sender} are ignored; is another bridge running?", Severity.WARNING)
    if event == UNSENT:
        return Finding(UNSENT, "commands cannot be sent; check the cable and the route", Severity.WARNING)
    return Finding(REJECTED, counters.last_rejection, Severity.WARNING)
