import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fcnet_core.control.runner import JointLimiter
from fcnet_core.robot import load_robot

PERIOD = 0.02
ROBOTS = [load_robot(name) for name in ("aliengo", "a1")]
anything = arrays(np.float64, 12, elements=st.floats(allow_nan=True, allow_infinity=True))
poses = arrays(np.float64, 12, elements=st.floats(-4, 4))


@pytest.fixture
def robot():
    return ROBOTS[0]


@settings(max_examples=200, deadline=None)
@given(
    robot=st.sampled_from(ROBOTS), start=arrays(np.float64, 12, elements=st.floats(-4, 4)), wanted=st.lists(anything)
)
def test_whatever_is_wanted_the_target_is_finite_within_limits_and_slew(robot, start, wanted):
    limiter = JointLimiter(robot, PERIOD)
    limiter.start(start)
    last = limiter.last
    for target in wanted:
        sent = limiter.limit(target)
        assert np.isfinite(sent).all()
        assert (robot.lower <= sent).all()
        assert (sent <= robot.upper).all()
        assert np.abs(sent - last).max() <= robot.safety.max_target_rate * PERIOD + 1e-9
        last = sent


def test_a_target_within_limits_and_slew_passes_unchanged(robot):
    limiter = JointLimiter(robot, PERIOD)
    limiter.start(robot.stand_pose)
    wanted = robot.stand_pose + 0.1
    np.testing.assert_allclose(limiter.limit(wanted), wanted)


def test_a_far_target_is_reached_at_the_allowed_rate(robot):
    limiter = JointLimiter(robot, PERIOD)
    limiter.start(robot.lie_pose)
    first = limiter.limit(robot.stand_pose)
    assert np.isclose(np.abs(first - robot.lie_pose).max(), robot.safety.max_target_rate * PERIOD)
    np.testing.assert_allclose(limiter.limit(robot.stand_pose), robot.stand_pose)


def test_a_joint_whose_target_is_not_a_number_stays_where_it_was_sent(robot):
    limiter = JointLimiter(robot, PERIOD)
    limiter.start(robot.stand_pose)
    wanted = robot.stand_pose + 0.05
    wanted[4] = np.nan
    sent = limiter.limit(wanted)
    assert sent[4] == robot.stand_pose[4]
    assert sent[5] == wanted[5]
