"""Commands of several sources: their age, their poses, and which of them is in control."""

import math

import numpy as np
import pytest

from fcnet_core.control.command import CommandArbiter, CommandSource

UPRIGHT = (0.0, 0.0, 0.0, 1.0)
STILL = (0.0, 0.0, 0.0)


@pytest.fixture
def source():
    return CommandSource("planner", timeout=0.5)


@pytest.fixture
def arbiter():
    return CommandArbiter(timeout=0.5)


@pytest.fixture
def sources(arbiter):
    return [arbiter.add_source(name) for name in ("joystick", "keyboard", "planner")]


def test_a_velocity_counts_until_it_is_too_old_and_not_before_its_time(source):
    assert not source.is_active(0.0)
    source.set_velocity(0.5, -0.1, 0.3, now=10.0)
    for now, velocity in ((10.5, (0.5, -0.1, 0.3)), (10.51, STILL), (1.0, STILL)):
        assert source.velocity(now) == velocity
        assert source.is_active(now) is any(velocity)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_velocity_that_is_not_finite_counts_as_zero_with_a_warning(source, bad):
    source.set_velocity(0.5, 0.0, 0.0, now=10.0)
    assert "planner" in source.set_velocity(0.5, bad, 0.0, now=10.1)
    assert source.velocity(10.1) == STILL


def test_a_pose_stays_until_changed_and_gives_roll_and_pitch_in_every_heading(source):
    yaw, pitch = 1.2, 0.15
    (sp, cp), (sy, cy) = ((math.sin(angle / 2), math.cos(angle / 2)) for angle in (pitch, yaw))
    assert source.set_pose(-0.05, (-sp * sy, sp * cy, cp * sy, cp * cy), now=10.0) is None
    assert source.pose == pytest.approx((-0.05, 0.0, pitch, 10.0), abs=1e-9)


@pytest.mark.parametrize(
    ("height", "orientation"), [(math.nan, UPRIGHT), (0.0, (0, 0, 0, 0)), (0.0, (math.inf, 0, 0, 1))]
)
def test_an_invalid_pose_is_ignored_with_a_warning(source, height, orientation):
    source.set_pose(-0.05, UPRIGHT, now=1.0)
    assert source.set_pose(height, orientation, now=2.0)
    assert source.pose == (-0.05, 0.0, 0.0, 1.0)


def test_the_source_of_higher_priority_is_in_control_and_hands_over_after_the_timeout(arbiter, sources):
    joystick, keyboard, planner = sources
    assert arbiter.source(0.0) == "" and not arbiter.wanted(0.0).any()  # without a command the robot stands
    planner.set_velocity(1.0, 0.1, 0.1, now=10.0)
    assert arbiter.source(10.0) == "planner"
    joystick.set_velocity(0.0, 0.0, 0.0, now=10.2)
    for now in (10.2, 10.4, 10.6):
        planner.set_velocity(1.0, 0.1, 0.1, now=now)
        keyboard.set_velocity(0.2, 0.0, 0.0, now=now)
        assert arbiter.source(now) == "joystick" and not arbiter.wanted(now)[:3].any()
    planner.set_velocity(0.3, 0.0, 0.0, now=10.9)
    assert [arbiter.wanted(now)[0] for now in (10.7, 10.71, 11.1, 11.11, 11.41)] == [0.0, 0.2, 0.2, 0.3, 0.0]
    assert arbiter.source(11.41) == ""


def test_the_pose_is_the_last_of_a_source_in_control_and_one_that_only_poses_holds_the_robot(arbiter, sources):
    joystick, keyboard, planner = sources
    planner.set_velocity(1.0, 0.0, 0.0, now=5.0)
    keyboard.set_pose(-0.05, UPRIGHT, now=5.0)
    np.testing.assert_array_equal(arbiter.wanted(5.0)[:4], [0.0, 0.0, 0.0, -0.05])
    planner.set_pose(-0.1, UPRIGHT, now=10.0)
    joystick.set_velocity(0.1, 0.0, 0.0, now=100.0)
    assert arbiter.wanted(100.0)[3] == -0.1
    joystick.set_pose(0.01, UPRIGHT, now=100.1)
    planner.set_pose(-0.1, UPRIGHT, now=100.2)
    assert arbiter.wanted(100.2)[3] == arbiter.wanted(200.0)[3] == 0.01
    planner.set_pose(-0.1, UPRIGHT, now=200.0)
    assert arbiter.wanted(200.0)[3] == -0.1


def test_clearing_deletes_velocities_and_poses_and_keeps_the_style(arbiter, sources):
    arbiter.set_style(0.1, 0.02, -0.3)
    sources[0].set_velocity(0.5, 0.0, 0.0, now=1.0)
    sources[0].set_pose(-0.05, UPRIGHT, now=1.0)
    arbiter.clear()
    assert arbiter.source(1.0) == "" and not sources[0].is_active(1.0)
    np.testing.assert_allclose(arbiter.wanted(1.0), [0, 0, 0, 0, 0, 0, 0.1, 0.02, -0.3])
