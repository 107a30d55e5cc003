import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_robots import every_robot

from fcnet_core.control.runner import JointLimiter

PERIOD = 0.02
ROBOTS = every_robot()


@pytest.fixture(params=ROBOTS, ids=lambda robot: robot.name)
def robot(request):
    return request.param


@st.composite
def motions(draw):
    """A robot, its joint positions and the targets of several periods."""
    robot = draw(st.sampled_from(ROBOTS))
    joints = len(robot.joint_names)
    start = draw(st.lists(st.floats(-4, 4), min_size=joints, max_size=joints))
    anything = st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=joints, max_size=joints)
    return robot, start, draw(st.lists(anything, max_size=8))


@settings(max_examples=200, deadline=None)
@given(motions())
def test_whatever_is_wanted_the_target_is_finite_within_limits_and_slew(motion):
    robot, start, wanted = motion
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


def test_a_near_target_passes_unchanged_and_a_joint_whose_target_is_not_a_number_stays(robot):
    limiter = JointLimiter(robot, PERIOD)
    limiter.start(robot.stand_pose)
    wanted = robot.stand_pose + 0.1
    wanted[4] = np.nan
    sent = limiter.limit(wanted)
    assert sent[4] == robot.stand_pose[4]
    np.testing.assert_allclose(np.delete(sent, 4), np.delete(wanted, 4))


def test_a_far_target_is_reached_at_the_allowed_rate(robot):
    limiter = JointLimiter(robot, PERIOD)
    limiter.start(robot.lower)
    step = robot.safety.max_target_rate * PERIOD
    first = limiter.limit(robot.upper)
    np.testing.assert_allclose(first, np.minimum(robot.lower + step, robot.upper))
    for _ in range(20):
        limiter.limit(robot.upper)
    np.testing.assert_allclose(limiter.last, robot.upper)
