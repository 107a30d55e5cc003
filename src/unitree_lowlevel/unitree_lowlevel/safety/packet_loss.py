"""How many packets are lost on the way."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from unitree_lowlevel.safety.checks import Finding, Limits, Severity
from unitree_lowlevel.transport import TransportCounters

PACKET_LOSS = "packet_loss"
WINDOW = 1.0  # [s] that the estimate is about
MEASUREMENTS = 10  # in a window
SOONEST = 0.5  # [s] before the first estimate
_TICKS = (1.0, 2.0, 2000.0)  # a tick per state, a millisecond, a microsecond: for states that are 2 ms apart

COARSE = 3  # repeats of a tick, with new values, that show that the clock is coarser than the states


@dataclass(frozen=True)
class _Mark:
    """What had been counted at one time [s]; live_repeats as in StateWatch."""

    time: float
    tick: int
    received: int
    duplicates: int
    live_repeats: int
    cycles: int


class PacketLoss:
    """Estimates the share of states that did not come, over the last second.

    The robot's tick tells how many states there were. Its unit is not documented: the nearest of the usual ones is
    taken, and where the clock and its usual steps disagree (a simulated robot may be slow) that with the smaller loss.
    A robot may also send only in answer to commands: then there are no more states than there were commands, and
    packets lost on either way count. A robot that ever sent clearly more than that does not wait for commands.
    """

    def __init__(self, period: float) -> None:
        self.share: float | None = None
        self._period = period
        self._cycles = 0
        self._runs_free = False
        self._marks: deque[_Mark] = deque(maxlen=MEASUREMENTS + 1)
        self._tick = 0
        self._steps: deque[int] = deque(maxlen=round(WINDOW / period))

    def reset(self) -> None:
        """Begin a new window."""
        self._marks.clear()
        self._steps.clear()
        self.share = None

    def see(self, now: float, tick: int, live_repeats: int, counters: TransportCounters) -> None:
        """Count one more cycle, at time `now` [s], with the newest state's tick."""
        self._cycles += 1
        if tick != self._tick:
            self._steps.append(_advance(self._tick, tick))
            self._tick = tick
        marks = self._marks
        if marks and now - marks[-1].time < WINDOW / MEASUREMENTS:
            return
        if marks and (_advance(marks[-1].tick, tick) >= 2**31 or now - marks[-1].time > 2 * WINDOW / MEASUREMENTS):
            self.reset()  # the robot has restarted, or nobody has counted for a while
        marks.append(_Mark(now, tick, counters.received, counters.duplicates, live_repeats, self._cycles))
        if now - marks[0].time >= SOONEST:
            self.share = self._estimate(marks[0], marks[-1])

    def check(self, limits: Limits) -> Finding | None:
        """A warning, then a trip, for the newest estimate."""
        if self.share is None or self.share < limits.safety.packet_loss_warning:
            return None
        severity = Severity.WARNING if self.share < limits.safety.max_packet_loss else Severity.NO_FOLLOWING
        return Finding(
            PACKET_LOSS, f"{100 * self.share:.0f} % of the packets are lost; check cable and switch", severity
        )

    def _estimate(self, first: _Mark, last: _Mark) -> float:
        advance = _advance(first.tick, last.tick)
        periods = (last.time - first.time) / self._period
        smallest_usual = sorted(self._steps)[len(self._steps) // 10] if self._steps else 1
        unit = max(_nearest(advance / periods), _nearest(smallest_usual))
        arrived = last.received - first.received
        if last.live_repeats - first.live_repeats < COARSE:
            arrived -= last.duplicates - first.duplicates
        commands = last.cycles - first.cycles
        self._runs_free |= arrived > 1.1 * commands + 10
        expected = advance / unit if self._runs_free else min(advance / unit, commands)
        return min(1.0, max(0.0, 1.0 - arrived / expected)) if expected > 0 else 0.0


def _nearest(step: float) -> float:
    return min(_TICKS, key=lambda ticks: abs(math.log(max(step, 1e-9) / ticks)))


def _advance(earlier: int, later: int) -> int:
    return (later - earlier) % 2**32
