"""The motion of self-righting: what it does depends on what a robot measures, and it ends."""

import math

import numpy as np
import pytest
from made_robots import TAILED

from fcnet_core.legs.recovery import SelfRighting, joint_beyond_limits, lying_on
from fcnet_core.observation import RobotState
from fcnet_core.robot import load_robot
from fcnet_core.rotation import projected_gravity

PERIOD = 0.02
OTHER_SIDE = [1, 0, 3, 2]  # of LEGS


def rolled(angle):
    """Attitude (4,) x, y, z, w of a robot that is turned about its forward axis; positive: its right side is lower."""
    return np.array([math.sin(angle / 2), 0.0, 0.0, math.cos(angle / 2)])


def play(righting, attitude, start, follows=True):
    """Advance a robot that never turns until the motion ends; targets of every period."""
    righting.start(start)
    state, targets = RobotState(start, 0 * start, attitude, np.zeros(3)), []
    while not (righting.done or righting.failure):
        targets.append(righting.advance(PERIOD, state))
        state.joint_position = targets[-1] if follows else start
    return np.array(targets)


@pytest.fixture(params=["aliengo", "a1", TAILED], ids=["aliengo", "a1", "tailed"])
def robot(request):
    return load_robot(request.param)


@pytest.fixture
def righting(robot):
    return SelfRighting(robot)


@pytest.mark.parametrize(
    ("angle", "expected"), [(0.0, "belly"), (1.4, "right side"), (-1.4, "left side"), (3.1, "back"), (-3.1, "back")]
)
def test_gravity_says_what_a_robot_lies_on(angle, expected):
    assert lying_on(projected_gravity(rolled(angle))) == expected


def test_a_robot_on_its_belly_only_folds_its_legs(righting, robot):
    sprawled = robot.lie_pose.copy()
    sprawled[robot.leg_rows] += [0.5, -0.8, 0.6]
    targets = play(righting, rolled(0.1), sprawled)
    assert righting.done and righting.attempts == 0 and len(targets) * PERIOD < 1.5
    np.testing.assert_allclose(targets[-1], robot.lie_pose, atol=1e-6)


@pytest.mark.parametrize("angle", [1.4, -1.4, 3.1])
def test_a_robot_that_stays_where_it_is_is_given_up_in_time(righting, robot, angle):
    targets = play(righting, rolled(angle), robot.lie_pose)
    assert "belly" in righting.failure and not righting.done and righting.attempts == robot.recovery.attempts
    assert len(targets) * PERIOD <= robot.recovery.max_time + PERIOD
    assert ((robot.lower <= targets) & (targets <= robot.upper)).all()


def test_rolling_onto_one_side_mirrors_rolling_onto_the_other(righting, robot):
    left, right = (play(righting, rolled(angle), robot.lie_pose)[:, robot.leg_rows] for angle in (-1.4, 1.4))
    np.testing.assert_allclose(left, right[:, OTHER_SIDE] * [-1, 1, 1], atol=1e-9)


def test_a_blocked_leg_is_pushed_with_a_share_of_the_torque_only(righting, robot):
    start = robot.stand_pose
    targets = play(righting, rolled(3.1), start, follows=False)
    asked = robot.kp * np.abs(targets - start).max(axis=0)
    assert (asked <= robot.recovery.torque * robot.torque_limit + 1e-9).all()


def test_a_joint_beyond_its_limits_is_named(robot):
    beyond = robot.lie_pose.copy()
    assert joint_beyond_limits(robot, beyond) is None
    beyond[5] = robot.upper[5] + 0.5
    reason = joint_beyond_limits(robot, beyond)
    watched = "position_margin" not in robot.safety.unwatched
    assert robot.joint_names[5] in reason if watched else reason is None


def test_a_robot_that_turns_too_fast_is_given_up(righting, robot):
    righting.start(robot.lie_pose)
    turning = np.array([2.0 * robot.recovery.max_rate, 0.0, 0.0])
    state = RobotState(robot.lie_pose, 0 * robot.lie_pose, rolled(1.4), turning)
    for _ in range(20):
        righting.advance(PERIOD, state)
    assert "turns over" in righting.failure
