"""The share of packets that are lost on the way."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from fcnet_core.robot import Safety
from unitree_lowlevel.safety.checks import Finding, Severity
from unitree_lowlevel.transport import TransportCounters

PACKET_LOSS = "packet_loss"
WINDOW = 1.0  # [s] of the estimate
SAMPLES = 10  # in a window
SOONEST = 0.5  # [s] before the first estimate
_TICKS = (1.0, 2.0, 2000.0)  # a tick per state, a millisecond, a microsecond: for states that are 2 ms apart
_COARSE = 3  # coarse ticks, see StateWatch, that prove a clock coarser than the states


@dataclass(frozen=True)
class _Sample:
    """All that had been counted at one time [s]."""

    time: float
    tick: int
    received: int
    duplicates: int
    coarse_ticks: int
    cycles: int


class PacketLoss:
    """Estimates the share of states that did not come, over the last second.

    The advance of the robot's tick gives the number of states that were due. Its unit is not documented: the nearest of
    the usual ones is taken, and where the clock and its usual steps disagree (a simulated robot may be slow) that with
    the smaller loss. A robot may also send only in answer to commands: then there are no more states than there were
    commands, and packets lost on either way count. A robot that ever sent clearly more than that runs freely.
    """

    def __init__(self, period: float) -> None:
        self.share: float | None = None
        self._period = period
        self._cycles = 0
        self._runs_free = False
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES + 1)
        self._tick = 0
        self._steps: deque[int] = deque(maxlen=round(WINDOW / period))

    def reset(self) -> None:
        """Begin a new window."""
        self._samples.clear()
        self._steps.clear()
        self.share = None

    def update(self, now: float, tick: int, coarse_ticks: int, counters: TransportCounters) -> None:
        """Count one more cycle, at time `now` [s], with the newest state's tick."""
        self._cycles += 1
        if tick != self._tick:
            self._steps.append(_advance(self._tick, tick))
            self._tick = tick
        samples = self._samples
        if samples:
            elapsed = now - samples[-1].time
            if elapsed < WINDOW / SAMPLES:
                return
            if _advance(samples[-1].tick, tick) >= 2**31 or elapsed > 2 * WINDOW / SAMPLES:
                self.reset()  # the robot has restarted, or nothing has been counted for a while
        samples.append(_Sample(now, tick, counters.received, counters.duplicates, coarse_ticks, self._cycles))
        if now - samples[0].time >= SOONEST:
            self.share = self._estimate(samples[0], samples[-1])

    def check(self, safety: Safety) -> Finding | None:
        """A warning, then a trip, for the newest estimate."""
        if self.share is None or self.share < safety.packet_loss_warning:
            return None
        severity = Severity.WARNING if self.share < safety.max_packet_loss else Severity.TRIP_IF_FOLLOWING
        reason = f"{100 * self.share:.0f} % of the packets are lost; check cable and switch"
        return Finding(PACKET_LOSS, reason, severity)

    def _estimate(self, first: _Sample, last: _Sample) -> float:
        advance = _advance(first.tick, last.tick)
        periods = (last.time - first.time) / self._period
        smallest_usual = sorted(self._steps)[len(self._steps) // 10] if self._steps else 1
        unit = max(_nearest_unit(advance / periods), _nearest_unit(smallest_usual))
        arrived = last.received - first.received
        if last.coarse_ticks - first.coarse_ticks < _COARSE:
            arrived -= last.duplicates - first.duplicates
        commands = last.cycles - first.cycles
        self._runs_free |= arrived > 1.1 * commands + 10
        expected = advance / unit if self._runs_free else min(advance / unit, commands)
        return min(1.0, max(0.0, 1.0 - arrived / expected)) if expected > 0 else 0.0


def _nearest_unit(step: float) -> float:
    return min(_TICKS, key=lambda ticks: abs(math.log(max(step, 1e-9) / ticks)))


def _advance(earlier: int, later: int) -> int:
    return (later - earlier) % 2**32
