"""Simulated time and the wall clock."""

from __future__ import annotations

import pytest

from fcnet_core.control.timing import Pacer


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


def test_a_short_delay_is_made_up_for(fake):
    pacer = Pacer(0.004, fake.clock, fake.sleep)
    fake.now += 0.015
    for _ in range(100):
        pacer.wait()
    assert fake.now == pytest.approx(100.4)


def test_a_long_pause_is_not_made_up_for(fake):
    pacer = Pacer(0.004, fake.clock, fake.sleep)
    fake.now += 10.0
    for _ in range(101):
        pacer.wait()
    assert fake.now == pytest.approx(110.4)
    assert pacer.lost == pytest.approx(9.996)


def test_a_simulation_that_cannot_keep_up_reports_its_true_rate(fake):
    pacer = Pacer(0.004, fake.clock, fake.sleep)
    for _ in range(100):
        fake.now += 0.008
        pacer.wait()
    assert pacer.measured_rate() == pytest.approx(125.0, rel=0.05)
