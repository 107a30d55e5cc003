"""What else comes over the network, told to whoever looks for the cause of trouble."""

from __future__ import annotations

from unitree_lowlevel.safety.trip import Finding, Severity
from unitree_lowlevel.transport import TransportCounters

NOT_FINITE = "not_finite"
FOREIGN = "foreign_packets"
REJECTED = "rejected_packets"
UNSENT = "unsent_commands"
_REJECTIONS = {
    "size": "packets that are no Unitree states arrive; check the address and the port",
    "generation": "packets of the other wire generation arrive; set the parameter generation to the other one",
    "head": "packets without a Unitree head arrive; check the address and the parameter generation",
    "checksum": "packets with a wrong checksum arrive; check the cable",
    "level": "packets that are not for motors arrive; end the robot's sport mode",
}


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

    def check(self, now: float, counters: TransportCounters) -> list[Finding]:
        """What has happened lately. A state that says NaN is refused by the codec and no reason to go on."""
        return [_finding(event, counters) for event, time in self._times.items() if now - time <= self._memory]

    def _count(self, now: float, event: str, count: int) -> None:
        if count > self._counts.get(event, 0):
            self._times[event] = now
        self._counts[event] = count


def _finding(event: str, counters: TransportCounters) -> Finding:
    if event == NOT_FINITE:
        sentence = "the robot sends values that are not finite numbers; restart the robot"
        return Finding(NOT_FINITE, sentence, Severity.NO_FOLLOWING)
    if event == FOREIGN:
        sender = "somebody" if counters.last_foreign is None else "{}:{}".format(*counters.last_foreign)
        return Finding(FOREIGN, f"packets of {sender} are ignored; is another bridge running?", Severity.WARNING)
    if event == UNSENT:
        return Finding(UNSENT, "commands cannot be sent; check the cable and the route", Severity.WARNING)
    sentence = _REJECTIONS.get(event, f"packets are rejected ({event}); check the network")
    return Finding(REJECTED, sentence, Severity.WARNING)
