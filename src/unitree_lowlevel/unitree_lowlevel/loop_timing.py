"""When the loop to the motor board runs: its place between the arrivals of states."""

from __future__ import annotations

SHIFT = 0.1  # of a period
INTERVAL = 0.5  # [s] between two shifts, so that they cost no more than 0.04 % of the rate


class StatePhase:
    """Decides when the loop's cycles should be a little later, so that they do not meet the arrivals of states.

    Robot and loop have the same period. Where a state arrives at about the time of a cycle, one cycle finds none and
    the next finds two, of which the first is no longer of use.
    """

    def __init__(self, period: float) -> None:
        self._shift = SHIFT * period
        self._received = 0
        self._missed = False
        self._shifted = float("-inf")

    def shift(self, received: int, now: float) -> float:
        """Return how much later the next cycles should be [s], after a cycle at time `now` [s] up to which so many
        states have been received in all.
        """
        arrived, self._received = received - self._received, received
        two_after_none = self._missed and arrived >= 2
        self._missed = arrived == 0
        if not two_after_none or now - self._shifted < INTERVAL:
            return 0.0
        self._shifted = now
        return self._shift
