import numpy as np
import pytest

from fcnet_core.control.command import CommandArbiter

UPRIGHT = (0.0, 0.0, 0.0, 1.0)


@pytest.fixture
def arbiter():
    return CommandArbiter(timeout=0.5)


@pytest.fixture
def sources(arbiter):
    return [arbiter.add_source(name) for name in ("joystick", "keyboard", "planner")]


def test_without_a_source_or_a_command_the_robot_shall_stand(arbiter):
    assert arbiter.source(0.0) == ""
    np.testing.assert_array_equal(arbiter.wanted(0.0), np.zeros(9))


def test_the_more_important_source_moves_the_robot_alone_whoever_spoke_last(arbiter, sources):
    joystick, keyboard, planner = sources
    planner.set_velocity(1.0, 0.1, 0.1, now=10.0)
    assert arbiter.source(10.0) == "planner"
    keyboard.set_velocity(0.2, 0.0, 0.0, now=10.1)
    joystick.set_velocity(0.0, 0.0, 0.0, now=10.2)
    for moment in (10.2, 10.4, 10.6):
        planner.set_velocity(1.0, 0.1, 0.1, now=moment)
        keyboard.set_velocity(0.2, 0.0, 0.0, now=moment)
        assert arbiter.source(moment) == "joystick"
        np.testing.assert_array_equal(arbiter.wanted(moment)[:3], np.zeros(3))


def test_a_source_that_falls_silent_hands_over_to_the_next_after_the_timeout(arbiter, sources):
    _, keyboard, planner = sources
    for source, speed in zip(sources, (0.1, 0.2, 0.3), strict=True):
        source.set_velocity(speed, 0.0, 0.0, now=10.0)
    keyboard.set_velocity(0.2, 0.0, 0.0, now=10.3)
    planner.set_velocity(0.3, 0.0, 0.0, now=10.6)
    assert [arbiter.wanted(moment)[0] for moment in (10.5, 10.51, 10.8, 10.81)] == [0.1, 0.2, 0.2, 0.3]
    assert arbiter.source(11.11) == ""
    assert arbiter.wanted(11.11)[0] == 0.0


def test_a_source_that_only_poses_holds_the_robot(arbiter, sources):
    joystick, _, planner = sources
    planner.set_velocity(1.0, 0.0, 0.0, now=10.0)
    joystick.set_pose(-0.05, UPRIGHT, now=10.0)
    np.testing.assert_array_equal(arbiter.wanted(10.0)[:4], [0.0, 0.0, 0.0, -0.05])


def test_the_pose_is_the_last_that_a_source_in_control_gave(arbiter, sources):
    joystick, _, planner = sources
    planner.set_pose(-0.1, UPRIGHT, now=10.0)
    assert arbiter.wanted(99.0)[3] == -0.1
    joystick.set_velocity(0.1, 0.0, 0.0, now=100.0)
    assert arbiter.wanted(100.0)[3] == -0.1
    joystick.set_pose(0.01, UPRIGHT, now=100.1)
    planner.set_pose(-0.1, UPRIGHT, now=100.2)
    assert arbiter.wanted(100.2)[3] == 0.01
    assert arbiter.wanted(200.0)[3] == 0.01
    planner.set_pose(-0.1, UPRIGHT, now=200.0)
    assert arbiter.wanted(200.0)[3] == -0.1


def test_style_is_nobodys_and_clearing_keeps_it(arbiter, sources):
    arbiter.set_style(0.1, 0.02, -0.3)
    sources[0].set_velocity(0.5, 0.0, 0.0, now=1.0)
    sources[0].set_pose(-0.05, UPRIGHT, now=1.0)
    arbiter.clear()
    np.testing.assert_allclose(arbiter.wanted(1.0), [0, 0, 0, 0, 0, 0, 0.1, 0.02, -0.3])
