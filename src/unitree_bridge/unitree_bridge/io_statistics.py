"""Figures of the loop to the motor board: how regular, how long, how often missed."""

from __future__ import annotations

from fcnet_core.latency import LatencyRing


class IoStatistics:
    """What the loop has done since it was started; written by it, read by others.

    turns: turns run. misses: turns left out because an earlier one came a whole period late. states: good states
    received. period: from one command on the wire to the next. work: of one turn, from its awakening to its end.
    received: when the newest good state came [s, time.monotonic], or when the loop began.
    """

    def __init__(self, now: float) -> None:
        self.turns = 0
        self.misses = 0
        self.states = 0
        self.period = LatencyRing()
        self.work = LatencyRing()
        self.received = now
