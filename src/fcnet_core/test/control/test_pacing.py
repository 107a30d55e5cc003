"""Pacing of simulated time and quantiles of latencies."""

import numpy as np
import pytest

from fcnet_core.control.timing import LatencyRing, Pacer


class FakeTime:
    """A clock that moves only when the pacer sleeps or time is spent."""

    def __init__(self):
        self.now = 100.0

    def clock(self):
        return self.now

    def sleep(self, duration):
        assert duration > 0
        self.now += duration


@pytest.fixture
def fake():
    return FakeTime()


def test_turns_keep_absolute_deadlines_although_work_takes_varying_time(fake):
    pacer = Pacer(0.004, fake.clock, fake.sleep)
    for turn in range(1000):
        fake.now += 0.001 if turn % 2 else 0.0035
        pacer.wait()
    assert fake.now == pytest.approx(104.0)
    assert pacer.measured_rate() == pytest.approx(250.0)


@pytest.mark.parametrize(("delay", "lost"), [(0.015, 0.0), (10.0, 9.996)])
def test_only_a_short_delay_is_made_up_for_and_the_rate_is_the_true_one(fake, delay, lost):
    pacer = Pacer(0.004, fake.clock, fake.sleep)
    fake.now += delay
    for _ in range(101):
        pacer.wait()
    assert fake.now == pytest.approx(100.404 + lost)
    assert pacer.lost == pytest.approx(lost)
    assert pacer.measured_rate() == pytest.approx(101 / (0.404 + lost))


def test_quantiles_are_those_of_the_newest_samples():
    ring = LatencyRing(size=100)
    assert ring.quantiles() == {"p50": 0.0, "p99": 0.0, "max": 0.0}
    ring.add(2.0)
    assert ring.quantiles() == {"p50": 2.0, "p99": 2.0, "max": 2.0}
    for duration in (*[9.0] * 50, *range(1, 101)):
        ring.add(duration)
    quantiles = ring.quantiles()
    assert (quantiles["p50"], quantiles["max"]) == (50.5, 100)
    assert np.isclose(quantiles["p99"], np.quantile(np.arange(1, 101), 0.99))
