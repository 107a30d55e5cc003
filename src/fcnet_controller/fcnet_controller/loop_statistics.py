"""Figures of the control loop: how late, how long, how often missed."""

from __future__ import annotations

from fcnet_core.latency import LatencyRing


class LoopStatistics:
    """What a control loop has done since it was started.

    cycles: cycles run. misses: cycles that never ran because an earlier one came a whole period late. wake: from the
    deadline to the loop's awakening. step: one step of the policy. response: while walking, from the reception of the
    older part of the state that was used to the return of the publish call.
    """

    def __init__(self) -> None:
        self.cycles = 0
        self.misses = 0
        self.wake = LatencyRing()
        self.step = LatencyRing()
        self.response = LatencyRing()
