"""The last step of a command: inside limits, slew, gains and torque, and finite whatever is asked."""

import numpy as np
import pytest

from unitree_lowlevel.codec import SERVO
from unitree_lowlevel.driver import CommandLimiter

PERIOD = 0.002
RAMP = 0.01
START = 5.0
STARTED = 100.0  # [s] long after the soft start
KP, KD = np.full(12, 40.0), np.full(12, 1.5)
STILL = np.zeros(12)


@pytest.fixture
def limiter(robot):
    return started(robot)


def started(robot, kp=KP, kd=KD):
    limiter = CommandLimiter(robot, PERIOD, RAMP)
    limiter.start(robot.lie_pose, kp, kd, START)
    return limiter


def follow(limiter, target, measured, velocity=STILL):
    """The command towards a target that was given long ago."""
    limiter.aim(target, STARTED - 1.0)
    return limiter.command(limiter.target(STARTED), measured, velocity, STARTED)


@pytest.mark.parametrize(("distance", "speed"), [(0.01, 0.0), (0.3, 8.0)])
def test_a_command_within_the_limits_passes_unchanged(limiter, robot, distance, speed):
    command = follow(limiter, robot.lie_pose + 0.01, robot.lie_pose + 0.01 - distance, np.full(12, speed))
    np.testing.assert_array_equal(command.position, robot.lie_pose + 0.01)
    np.testing.assert_array_equal(command.stiffness, KP)
    np.testing.assert_array_equal(command.damping, KD)
    assert (command.mode == SERVO).all()
    assert not command.velocity.any()
    assert not command.torque.any()


def test_it_starts_inside_the_limits_where_the_joints_are_not(limiter, robot):
    limiter.start(robot.upper + 0.05, KP, KD, START)
    np.testing.assert_array_equal(limiter.target(START), robot.upper)
    np.testing.assert_array_equal(limiter.command(robot.upper, robot.upper, STILL, START).position, robot.upper)


def test_gains_are_cut_to_the_robots_bounds(robot):
    command = follow(started(robot, np.full(12, 1e4), np.full(12, 1e4)), robot.lie_pose, robot.lie_pose)
    assert (command.stiffness == robot.safety.max_kp).all()
    assert (command.damping == robot.safety.max_kd).all()


def test_a_ramp_takes_the_interval_of_the_targets_up_to_its_longest(limiter, robot):
    def moved(now):
        return limiter.target(now)[0] - robot.lie_pose[0]

    limiter.aim(robot.lie_pose + 1.0, START)
    assert moved(5.005) == pytest.approx(0.5)
    assert moved(5.01) == moved(6.0) == 1.0
    limiter.aim(robot.lie_pose + 2.0, 5.02)
    assert moved(5.025) == pytest.approx(1.5)
    limiter.aim(robot.lie_pose, 5.025)
    assert moved(5.025) == pytest.approx(1.5)
    assert moved(5.0275) == pytest.approx(0.75)
    assert moved(5.0301) == 0.0
    limiter.aim(robot.lie_pose + 0.5, 5.0301)
    limiter.aim(robot.lie_pose + 1.0, 5.0301)  # two at once are no division by zero
    assert moved(5.0301) == 1.0


def test_a_soft_start_goes_from_damping_to_the_gains(limiter, robot):
    duration, holding = robot.safety.soft_start, robot.gains.damping
    for elapsed, share in ((-0.1, 0.0), (0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (4.0, 1.0)):
        command = limiter.command(robot.lie_pose, robot.lie_pose, STILL, START + elapsed * duration)
        np.testing.assert_allclose(command.stiffness, share * KP)
        np.testing.assert_allclose(command.damping, holding + share * (KD - holding))
