import math

import numpy as np
import pytest

from fcnet_controller.command_source import CommandSource


@pytest.fixture
def commands():
    return CommandSource(timeout=0.5)


def test_a_velocity_is_wanted_until_it_is_too_old(commands):
    commands.set_velocity(0.5, -0.1, 0.3, now=10.0)
    np.testing.assert_allclose(commands.wanted(10.5)[:3], [0.5, -0.1, 0.3])
    np.testing.assert_allclose(commands.wanted(10.51), np.zeros(9))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_velocity_that_is_not_finite_counts_as_zero_and_is_told(commands, bad):
    commands.set_velocity(0.5, 0.0, 0.0, now=10.0)
    assert "not finite" in commands.set_velocity(0.5, bad, 0.0, now=10.1)
    np.testing.assert_allclose(commands.wanted(10.1), np.zeros(9))


def test_a_pose_stays_until_changed_and_gives_roll_and_pitch_whatever_the_heading(commands):
    yaw, pitch = 1.2, 0.15
    orientation = (
        -math.sin(pitch / 2) * math.sin(yaw / 2),
        math.sin(pitch / 2) * math.cos(yaw / 2),
        math.cos(pitch / 2) * math.sin(yaw / 2),
        math.cos(pitch / 2) * math.cos(yaw / 2),
    )
    assert commands.set_pose(-0.05, orientation) is None
    np.testing.assert_allclose(commands.wanted(1e6)[3:6], [-0.05, 0.0, pitch], atol=1e-9)


@pytest.mark.parametrize(
    ("height", "orientation"), [(math.nan, (0, 0, 0, 1)), (0.0, (0, 0, 0, 0)), (0.0, (math.inf, 0, 0, 1))]
)
def test_a_pose_that_cannot_be_one_is_ignored_and_told(commands, height, orientation):
    commands.set_pose(-0.05, (0, 0, 0, 1))
    assert "ignored" in commands.set_pose(height, orientation)
    assert commands.wanted(0.0)[3] == -0.05


def test_clearing_forgets_velocity_and_pose(commands):
    commands.set_velocity(0.5, 0.0, 0.0, now=1.0)
    commands.set_pose(-0.05, (0, 0, 0, 1))
    commands.clear()
    np.testing.assert_allclose(commands.wanted(1.0), np.zeros(9))
