import math

import pytest

from fcnet_core.control.command import CommandSource

UPRIGHT = (0.0, 0.0, 0.0, 1.0)


@pytest.fixture
def source():
    return CommandSource("planner", timeout=0.5)


def test_a_velocity_counts_until_it_is_too_old(source):
    assert not source.is_active(0.0)
    source.set_velocity(0.5, -0.1, 0.3, now=10.0)
    assert source.velocity(10.5) == (0.5, -0.1, 0.3)
    assert source.is_active(10.5)
    assert source.velocity(10.51) == (0.0, 0.0, 0.0)
    assert not source.is_active(10.51)


def test_a_command_of_a_time_that_has_not_come_does_not_count(source):
    source.set_velocity(0.5, 0.0, 0.0, now=100.0)
    assert source.velocity(1.0) == (0.0, 0.0, 0.0)
    assert not source.is_active(1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_velocity_that_is_not_finite_counts_as_zero_and_is_told(source, bad):
    source.set_velocity(0.5, 0.0, 0.0, now=10.0)
    sentence = source.set_velocity(0.5, bad, 0.0, now=10.1)
    assert "planner is not finite" in sentence
    assert source.velocity(10.1) == (0.0, 0.0, 0.0)


def test_a_pose_stays_until_changed_and_gives_roll_and_pitch_whatever_the_heading(source):
    yaw, pitch = 1.2, 0.15
    orientation = (
        -math.sin(pitch / 2) * math.sin(yaw / 2),
        math.sin(pitch / 2) * math.cos(yaw / 2),
        math.cos(pitch / 2) * math.sin(yaw / 2),
        math.cos(pitch / 2) * math.cos(yaw / 2),
    )
    assert source.set_pose(-0.05, orientation, now=10.0) is None
    assert source.pose == pytest.approx((-0.05, 0.0, pitch, 10.0), abs=1e-9)


@pytest.mark.parametrize(
    ("height", "orientation"), [(math.nan, UPRIGHT), (0.0, (0, 0, 0, 0)), (0.0, (math.inf, 0, 0, 1))]
)
def test_a_pose_that_cannot_be_one_is_ignored_and_told(source, height, orientation):
    source.set_pose(-0.05, UPRIGHT, now=1.0)
    assert "ignored" in source.set_pose(height, orientation, now=2.0)
    assert source.pose == (-0.05, 0.0, 0.0, 1.0)


def test_clearing_forgets_everything(source):
    source.set_velocity(0.5, 0.0, 0.0, now=1.0)
    source.set_pose(-0.05, UPRIGHT, now=1.0)
    source.clear()
    assert not source.is_active(1.0)
    assert source.velocity(1.0) == (0.0, 0.0, 0.0)
    assert source.pose[:3] == (0.0, 0.0, 0.0)
