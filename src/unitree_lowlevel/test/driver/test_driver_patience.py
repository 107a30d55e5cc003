"""Patience is time: whatever this process or a sender does meanwhile, stiffness ends, and comes back softly."""

from __future__ import annotations

import pytest

from unitree_lowlevel.driver import DriverMode


@pytest.mark.parametrize("pause", [0.06, 0.5, 3.0])
@pytest.mark.parametrize("free_running", [True, False], ids=["free_running", "answering"])
def test_a_loop_that_stood_still_damps_and_needs_a_damp_to_follow_softly(bench, pause, free_running):
    bench.following()
    bench.now += pause
    bench.send(bench.position)
    bench.silent = not free_running  # a board that answers has nothing to answer yet
    bench.cycle()
    assert bench.damped
    bench.silent = False
    bench.run(0.5, bench.position)
    assert bench.damped
    assert bench.driver.trip is None
    bench.driver.damp()
    bench.run(0.02, bench.position)
    assert 0.0 < bench.sent[-1].stiffness.max() < 0.1 * bench.robot.gains.kp


def test_short_gaps_of_the_loop_change_nothing(bench):
    bench.following()
    for _ in range(10):
        bench.now += bench.robot.safety.max_cycle_gap - 0.004
        bench.send(bench.position)
        bench.run(1.0, bench.position)
        assert bench.sent[-1].stiffness.all()
    assert bench.driver.mode is DriverMode.FOLLOWING


def test_targets_are_as_old_as_their_arrival(bench):
    bench.following()
    bench.run(0.05)
    bench.send(bench.position, age=0.04)
    bench.run(bench.robot.safety.command_timeout - 0.044)
    assert bench.sent[-1].stiffness.all()
    bench.run(0.006)
    assert bench.damped


def test_targets_that_waited_too_long_are_refused_and_renew_nothing(bench):
    bench.following()
    began = bench.now
    while not bench.damped:
        assert bench.send(bench.position, age=bench.robot.safety.command_timeout + 0.001) is not None
        bench.cycle()
        assert bench.now - began < 0.1
    bench.driver.damp()
    assert bench.send(bench.position, age=1.0) is not None
    assert bench.send(bench.position, age=float("nan")) is not None
    bench.cycle()
    assert bench.damped


def test_targets_from_the_future_are_no_older_tomorrow(bench):
    bench.following()
    bench.send(bench.position, age=-1000.0)
    bench.cycle()
    bench.run(0.1)
    assert bench.damped
