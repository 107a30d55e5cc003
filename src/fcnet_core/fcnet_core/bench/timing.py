"""Durations of alternatives that run in turn, so that other load on the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from fcnet_core.arrays import Array

WARM_UP = 2  # calls of an alternative before the timed calls of a round
Call = Callable[[int], object]  # takes its number within the round


@dataclass(frozen=True)
class Timing:
    """Wall time [s] of every call (rounds, calls) and processor time [s] of every round (rounds,), by alternative."""

    wall: dict[str, Array]
    processor: dict[str, Array]

    def quantile(self, name: str, q: float) -> float:
        """Return a quantile of the wall time of a call [s]."""
        return float(np.quantile(self.wall[name], q))

    def mean_processor(self, name: str) -> float:
        """Return the processor time of a call [s] in the median round."""
        return float(np.median(self.processor[name])) / self.wall[name].shape[1]

    def ratio(self, name: str, reference: str) -> tuple[float, float, float]:
        """Return the 10, 50 and 90 % quantiles over the rounds of reference / name, in processor time."""
        low, middle, high = np.quantile(self.processor[reference] / self.processor[name], [0.1, 0.5, 0.9])
        return float(low), float(middle), float(high)

    def ratio_text(self, name: str, reference: str) -> str:
        """Return the ratio as a cell of a table."""
        low, middle, high = self.ratio(name, reference)
        return f"{middle:.2f} ({low:.2f} to {high:.2f})"


@dataclass(frozen=True)
class Pace:
    """How often an alternative is called: rounds, calls in a round, and seconds between calls (0: no pause)."""

    rounds: int
    steps: int
    period: float = 0.0

    def __str__(self) -> str:
        how = f"one every {1e3 * self.period:g} ms" if self.period else "without a pause"
        return f"{self.rounds} rounds of {self.steps} steps of each in turn, {how}, one thread"


def interleave(alternatives: Mapping[str, Call], pace: Pace) -> Timing:
    """Time `pace.steps` calls of each alternative in every round.

    With a period, as on a robot, caches go cold between two calls.
    """
    wall: dict[str, Array] = {name: np.zeros((pace.rounds, pace.steps)) for name in alternatives}
    processor: dict[str, Array] = {name: np.zeros(pace.rounds) for name in alternatives}
    for number in tqdm(range(pace.rounds), desc="rounds", leave=False, disable=None):
        for name, call in alternatives.items():
            for index in range(WARM_UP):
                call(index)
            wall[name][number], processor[name][number] = _run(call, pace)
    return Timing(wall, processor)


def _run(call: Call, pace: Pace) -> tuple[Sequence[float], float]:
    """Return the wall time of each call and the processor time of all, without the time of waiting [s]."""
    times, waited = [], 0.0
    start, used = time.perf_counter(), time.thread_time()
    for index in range(pace.steps):
        if pace.period:
            before = time.thread_time()
            time.sleep(max(0.0, start + index * pace.period - time.perf_counter()))
            waited += time.thread_time() - before
        called = time.perf_counter()
        call(index)
        times.append(time.perf_counter() - called)
    return times, time.thread_time() - used - waited
