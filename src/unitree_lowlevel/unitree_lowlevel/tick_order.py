"""Which of two states is the later one."""

from __future__ import annotations

from enum import Enum

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
