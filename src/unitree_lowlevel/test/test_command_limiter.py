"""The last word on a command: inside limits, slew, gains and torque, and finite whatever is asked."""

from __future__ import annotations

import numpy as np
import pytest

from unitree_lowlevel.codec import SERVO
from unitree_lowlevel.limiter import CommandLimiter, SoftStart, TargetRamp

PERIOD = 0.002
KP, KD = np.full(12, 40.0), np.full(12, 1.5)


@pytest.fixture
def limiter(robot):
    limiter = CommandLimiter(robot, PERIOD)
    limiter.start(robot.lie_pose)
    return limiter


def test_a_near_target_passes_unchanged(limiter, robot):
    command = limiter.follow(robot.lie_pose + 0.01, robot.lie_pose, KP, KD)
    np.testing.assert_array_equal(command.position, robot.lie_pose + 0.01)
    np.testing.assert_array_equal(command.stiffness, KP)
    np.testing.assert_array_equal(command.damping, KD)
    assert (command.mode == SERVO).all()
    assert not command.velocity.any()
    assert not command.torque.any()


def test_a_far_target_is_approached_at_the_robots_slew(limiter, robot):
    step = robot.safety.max_target_rate * PERIOD
    first = limiter.follow(robot.stand_pose, robot.lie_pose, KP, KD).position
    np.testing.assert_allclose(np.abs(first - robot.lie_pose)[1:3], step)
    for _ in range(50):
        last = limiter.follow(robot.stand_pose, robot.lie_pose, KP, KD).position
    np.testing.assert_allclose(last, robot.stand_pose)


def test_it_starts_inside_the_limits_where_the_joints_are_not(limiter, robot):
    limiter.start(robot.upper + 0.05)
    np.testing.assert_array_equal(limiter.last, robot.upper)


def test_gains_are_cut_to_the_robots_bounds(limiter, robot):
    command = limiter.follow(robot.lie_pose, robot.lie_pose, np.full(12, 1e4), np.full(12, 1e4))
    assert (command.stiffness == robot.safety.max_kp).all()
    assert (command.damping == robot.safety.max_kd).all()


def test_far_joints_get_less_stiffness_not_more_torque(limiter, robot):
    command = limiter.follow(robot.lie_pose, robot.lie_pose + 2.0, KP, KD)
    np.testing.assert_allclose(command.stiffness * 2.0, np.minimum(robot.torque_limit, KP * 2.0))


@pytest.mark.parametrize("where", range(4))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_never_leaves(limiter, robot, where, value):
    arguments = [robot.lie_pose.copy(), robot.lie_pose.copy(), KP.copy(), KD.copy()]
    arguments[where][4] = value
    with np.errstate(all="ignore"):
        command = limiter.follow(*arguments)
    for values in (command.position, command.stiffness, command.damping):
        assert np.isfinite(values).all()
    assert ((command.stiffness >= 0) & (command.stiffness <= robot.safety.max_kp)).all()
    following = limiter.follow(robot.lie_pose, robot.lie_pose, KP, KD)
    assert np.abs(following.position - robot.lie_pose).max() <= robot.safety.max_target_rate * PERIOD


def test_a_ramp_takes_the_interval_of_the_targets_up_to_its_longest():
    ramp, start = TargetRamp(0.01), np.zeros(12)
    ramp.start(start, 5.0)
    ramp.aim(start + 1.0, 5.0)
    assert ramp.position(5.005)[0] == pytest.approx(0.5)
    assert ramp.position(5.01)[0] == ramp.position(6.0)[0] == 1.0
    ramp.aim(start + 2.0, 5.02)
    assert ramp.position(5.025)[0] == pytest.approx(1.5)
    ramp.aim(start, 5.025)
    assert ramp.position(5.025)[0] == pytest.approx(1.5)
    assert ramp.position(5.0275)[0] == pytest.approx(0.75)
    assert ramp.position(5.0301)[0] == 0.0


def test_two_targets_at_once_are_no_division_by_zero():
    ramp = TargetRamp(0.01)
    ramp.start(np.zeros(12), 5.0)
    ramp.aim(np.ones(12), 5.0)
    ramp.aim(np.full(12, 2.0), 5.0)
    assert ramp.position(5.0)[0] == 2.0


def test_a_soft_start_goes_from_damping_to_the_gains():
    soft = SoftStart(0.5, damping=4.0)
    soft.begin(7.0)
    for time, kp, kd in ((7.0, 0.0, 4.0), (7.25, 20.0, 2.75), (7.5, 40.0, 1.5), (9.0, 40.0, 1.5), (6.9, 0.0, 4.0)):
        stiffness, damping = soft.gains(KP, KD, time)
        np.testing.assert_allclose(stiffness, kp)
        np.testing.assert_allclose(damping, kd)
