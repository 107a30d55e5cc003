"""When motors follow targets, how they begin, and where they never go."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from unitree_lowlevel.codec import POSITION_STOP
from unitree_lowlevel.driver import DriverMode


def test_without_a_state_the_motors_are_damped_and_targets_refused(bench):
    bench.silent = True
    bench.awake()
    assert bench.damped
    assert (bench.sent[-1].position == POSITION_STOP).all()
    assert bench.driver.mode is DriverMode.WAITING
    assert bench.send(bench.robot.lie_pose) is not None
    bench.cycle()
    assert bench.damped


def test_a_state_ends_the_waiting_and_its_absence_begins_it_again(bench):
    bench.cycle()
    assert bench.driver.mode is DriverMode.DAMPING
    bench.silent = True
    bench.run(0.2)
    assert bench.driver.mode is DriverMode.WAITING
    assert bench.driver.trip is None


def test_targets_are_followed_by_an_active_driver_only(bench):
    bench.run(0.2)
    assert bench.send(bench.robot.lie_pose) is not None
    bench.cycle()
    assert bench.damped
    bench.awake()
    assert bench.send(bench.robot.lie_pose) is None
    assert bench.run(0.02).stiffness.all()
    bench.driver.deactivate()
    bench.cycle()
    assert bench.damped


def test_only_a_damp_lets_targets_begin_silence_does_not(bench):
    bench.driver.damp()
    bench.run(0.2)
    bench.driver.activate()
    bench.run(1.0, bench.robot.lie_pose)
    assert bench.damped
    assert bench.driver.warnings
    bench.run(1.0)
    bench.run(0.1, bench.robot.lie_pose)
    assert bench.damped
    bench.driver.damp()
    bench.run(0.02, bench.robot.lie_pose)
    assert not bench.damped


def test_stiffness_comes_gently(bench):
    bench.awake()
    bench.send(bench.position)
    start = len(bench.sent)
    bench.run(1.0, bench.position)
    stiffness = np.array([command.stiffness[0] for command in bench.sent[start:]])
    damping = np.array([command.damping[0] for command in bench.sent[start:]])
    gains, duration = bench.robot.gains, bench.robot.safety.soft_start
    assert stiffness[0] < 0.02 * gains.kp
    assert damping[0] == pytest.approx(gains.damping, rel=0.02)
    assert np.diff(stiffness).max() < 1.1 * gains.kp * 0.002 / duration
    assert stiffness[-1] == gains.kp
    assert damping[-1] == gains.kd


def test_targets_at_50_hz_become_ramps(bench):
    bench.following()
    bench.send(bench.position + 0.1)
    steps = np.array([bench.cycle().position[2] for _ in range(8)]) - bench.robot.lie_pose[2]
    np.testing.assert_allclose(steps, [0.02, 0.04, 0.06, 0.08, 0.1, 0.1, 0.1, 0.1], atol=1e-9)


def test_targets_at_200_hz_are_reached_before_the_next(bench):
    bench.following().run(0.1, bench.position, rate=200.0)
    bench.send(bench.position + 0.01)
    bench.now += 0.003
    assert bench.cycle().position[1] == pytest.approx(bench.robot.lie_pose[1] + 0.01)


def test_positions_stay_inside_each_sides_limits(bench):
    robot = bench.robot
    goals = {"upper": robot.upper + 5.0, "lower": robot.lower - 5.0}
    bench.following()
    for name, goal in goals.items():
        while np.abs(bench.position - getattr(robot, name)).max() > 1e-9:
            bench.run(0.02, bench.position + np.clip(goal - bench.position, -0.3, 0.3))
            assert bench.driver.mode is DriverMode.FOLLOWING
    stiff = np.array([command.position for command in bench.sent if command.stiffness.any()])
    assert ((robot.lower <= stiff) & (stiff <= robot.upper)).all()
    np.testing.assert_allclose(stiff.max(axis=0), robot.upper)
    np.testing.assert_allclose(stiff.min(axis=0), robot.lower)


def test_the_first_target_must_be_where_the_joints_are(bench):
    bench.awake()
    assert bench.send(bench.robot.stand_pose) is not None
    bench.run(0.5, bench.robot.lie_pose)  # who has been refused must damp, before anything may move
    assert bench.damped
    bench.driver.damp()
    bench.run(0.5, bench.robot.lie_pose)
    assert not bench.damped


def test_silence_of_targets_damps_within_a_tenth_of_a_second_and_is_no_trip(bench):
    bench.following()
    bench.driver.take_events()
    last = bench.now
    while not bench.damped:
        bench.cycle()
        assert bench.now - last < 0.1
    assert bench.driver.trip is None
    assert [level for level, _ in bench.driver.take_events()] == [logging.INFO]
    bench.run(0.1, bench.position)
    assert bench.damped
    bench.driver.damp()
    bench.run(0.02, bench.position)
    assert not bench.damped


def test_damp_lets_go_at_once(bench):
    bench.following().driver.damp()
    bench.cycle()
    assert bench.damped
    assert bench.driver.mode is DriverMode.DAMPING


def test_targets_that_are_no_numbers_are_refused_and_end_as_silence(bench):
    bench.following()
    bad = bench.position.copy()
    bad[3] = np.nan
    assert bench.send(bad) is not None
    assert bench.send(bench.position[:5]) is not None
    assert bench.cycle().stiffness.all()
    bench.run(0.1, bad)
    assert bench.damped
    assert bench.driver.trip is None


def test_a_pose_that_is_not_this_robots_keeps_it_damped(bench):
    bench.state = {"position": bench.robot.lie_pose + np.tile([0.0, 0.0, -0.3], 4)}
    bench.awake()
    assert bench.driver.mode is DriverMode.DAMPING
    assert bench.send(bench.robot.lie_pose) is not None
    assert bench.driver.warnings[0].startswith("joint_position: ")


def test_a_joint_far_from_its_position_is_not_asked_for_more_than_its_torque(bench):
    bench.following()
    bench.state = {"position": bench.position.copy()}
    goal = np.clip(bench.position + 0.95, bench.robot.lower, bench.robot.upper)
    for share in np.linspace(0.0, 1.0, 10):
        bench.run(0.02, bench.robot.lie_pose + share * (goal - bench.robot.lie_pose))
    last = bench.sent[-1]
    asked = last.stiffness * np.abs(last.position - bench.state["position"])
    assert (asked <= bench.robot.torque_limit * (1 + 1e-9)).all()
    assert asked.max() == pytest.approx(bench.robot.torque_limit.max(), rel=0.3)


def test_what_stands_in_the_way_of_following_is_reported_before_targets_come(bench):
    driver = bench.driver
    bench.cycle()
    assert "not active" in driver.target_refusal
    driver.activate()
    bench.cycle()
    assert "damp" in driver.target_refusal
    driver.damp()
    bench.cycle()
    assert driver.target_refusal == ""
    bench.silent = True
    bench.run(0.2)
    assert driver.target_refusal
    bench.silent = False
    bench.cycle()
    assert driver.target_refusal == ""
    bench.send(bench.position)
    bench.cycle()
    assert driver.target_refusal == ""
    bench.run(0.1)
    assert driver.mode is DriverMode.DAMPING
    assert "damp" in driver.target_refusal
