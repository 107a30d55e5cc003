"""Durations of alternatives that are run in turn, so that whatever else the machine does meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from fcnet_core.arrays import Array

WARM_UP = 2  # calls before those that count


@dataclass(frozen=True)
class Timing:
    """Of each alternative by name: wall time [s] of every call (rounds, calls), processor time [s] of every round."""

    wall: dict[str, Array]
    processor: dict[str, Array]

    def quantile(self, name: str, q: float) -> float:
        """Quantile of the wall time of a call [s]."""
        return float(np.quantile(self.wall[name], q))

    def mean_processor(self, name: str) -> float:
        """Processor time of a call [s], in the median round."""
        return float(np.median(self.processor[name])) / self.wall[name].shape[1]

    def ratio(self, name: str, reference: str) -> tuple[float, float, float]:
        """How many times less processor time than the reference: 10, 50 and 90 % quantile over the rounds."""
        low, middle, high = np.quantile(self.processor[reference] / self.processor[name], [0.1, 0.5, 0.9])
        return float(low), float(middle), float(high)


def interleave(
    alternatives: Mapping[str, Callable[[int], object]], rounds: int, calls: int, period: float = 0.0
) -> Timing:
    """Run `calls` calls of each alternative in every one of `rounds` rounds.

    An alternative is called with the number of the call in its round. period: [s] from one call to the next, as on a
    robot, between which caches go cold; 0: one after the other.
    """
    wall: dict[str, Array] = {name: np.zeros((rounds, calls)) for name in alternatives}
    processor: dict[str, Array] = {name: np.zeros(rounds) for name in alternatives}
    for number in tqdm(range(rounds), desc="rounds", leave=False, disable=None):
        for name, call in alternatives.items():
            for index in range(WARM_UP):
                call(index)
            wall[name][number], processor[name][number] = _run(call, calls, period)
    return Timing(wall, processor)


def _run(call: Callable[[int], object], calls: int, period: float) -> tuple[Sequence[float], float]:
    times, slept = [], 0.0
    start, used = time.perf_counter(), time.thread_time()
    for index in range(calls):
        if period:
            before = time.thread_time()
            time.sleep(max(0.0, start + index * period - time.perf_counter()))
            slept += time.thread_time() - before
        begin = time.perf_counter()
        call(index)
        times.append(time.perf_counter() - begin)
    return times, time.thread_time() - used - slept
