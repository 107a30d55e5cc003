"""Gains come from the policy, within the bounds of the robot file."""

from __future__ import annotations

import numpy as np
import pytest


def test_gains_come_from_the_policy_within_the_robots_bounds(bench):
    bench.awake()
    assert bench.driver.set_gains(30.0, np.full(12, 1.0)) is None
    bench.run(1.0, bench.position)
    assert (bench.sent[-1].stiffness == 30.0).all()
    assert (bench.sent[-1].damping == 1.0).all()


@pytest.mark.parametrize(
    ("kp", "kd", "name"),
    [
        (500.0, 1.0, "kp"),
        (30.0, 50.0, "kd"),
        (np.nan, 1.0, "kp"),
        (30.0, -1.0, "kd"),
        (np.full(3, 30.0), 1.0, "kp"),
        (80.0, 0.03, "kd"),  # too little damping on the wire
        (60.0, 0.4, "kd"),
        (80.0, np.where(np.arange(12) == 8, 0.06, 1.0), "kd"),
    ],
)
def test_gains_beyond_the_bounds_or_with_too_little_damping_are_refused_and_nothing_is_followed(bench, kp, kd, name):
    bench.awake()
    refusal = bench.driver.set_gains(kp, kd)
    assert refusal.startswith(name)
    assert refusal in bench.send(bench.position)
    assert bench.driver.set_gains(30.0, 1.0) is None
    bench.driver.damp()
    assert bench.send(bench.position) is None


def test_gains_offered_while_following_count_when_joints_begin_to_follow_next(bench):
    bench.following()
    assert bench.driver.set_gains(20.0, 1.0) is None
    assert bench.driver.gains_pending
    bench.run(0.1, bench.position)
    assert (bench.sent[-1].stiffness == bench.robot.gains.kp).all()
    bench.driver.damp()
    bench.run(1.0, bench.position)
    assert not bench.driver.gains_pending
    assert (bench.sent[-1].stiffness == 20.0).all()
    assert (bench.sent[-1].damping == 1.0).all()


def test_bad_gains_offered_while_following_stop_nothing_and_keep_targets_from_beginning_next(bench):
    bench.following()
    refusal = bench.driver.set_gains(np.nan, 1.0)
    bench.run(0.1, bench.position)
    assert bench.sent[-1].stiffness.all()
    bench.driver.damp()
    assert refusal in bench.send(bench.position)


@pytest.mark.parametrize(
    ("kp", "kd"),
    [(20.0, 0.5), (20.0, 0.75), (25.0, 0.5), (25.0, 2.0), (50.0, 1.0), (50.0, 1.5), (60.0, 2.0), (80.0, 3.0)],
)
def test_gains_of_policies_in_the_field_are_accepted(bench, kp, kd):
    assert bench.driver.set_gains(kp, kd) is None
