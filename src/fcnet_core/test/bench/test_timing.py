"""Alternatives run in turn, each as often as asked."""

from __future__ import annotations

import time

from fcnet_core.bench.timing import WARM_UP, Pace, interleave


def test_every_alternative_runs_in_every_round() -> None:
    called = []
    timing = interleave(
        {"a": lambda index: called.append(("a", index)), "b": lambda index: called.append(("b", index))}, Pace(2, 3)
    )
    one_round = [(name, index) for name in "ab" for index in (*range(WARM_UP), *range(3))]
    assert called == one_round * 2
    assert timing.wall["a"].shape == (2, 3)


def test_a_ratio_is_of_processor_time_and_leaves_out_waiting() -> None:
    def work(count: int) -> None:
        sum(range(count))

    def wait(_index: int) -> None:
        work(20_000)
        time.sleep(0.005)

    timing = interleave(
        {"work": lambda _index: work(20_000), "wait": wait, "more": lambda _index: work(200_000)}, Pace(10, 5)
    )
    assert timing.ratio("more", "work")[1] < 0.3
    assert timing.ratio("wait", "work")[1] > 0.3  # by wall time it is 0.1 or less
    assert timing.quantile("wait", 0.5) > 0.005


def test_a_period_paces_the_calls_and_waiting_does_not_count() -> None:
    times = []
    started = time.perf_counter()
    timing = interleave({"a": lambda _index: times.append(time.perf_counter())}, Pace(1, 5, period=0.02))
    assert all(called >= started + index * 0.02 for index, called in enumerate(times[WARM_UP:]))
    assert timing.mean_processor("a") < 0.01
