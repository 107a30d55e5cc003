"""What bridges make of joint_trajectory messages."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcnet_core.errors import RefusedCommandError
from fcnet_ros.targets import joint_targets

JOINTS = ("left_knee", "right_knee", "tail")
POSITIONS = [0.1, 0.2, 0.3]


@given(st.permutations(range(3)))
def test_joints_are_matched_by_name_in_any_order(order):
    targets = joint_targets(JOINTS, [JOINTS[i] for i in order], [POSITIONS[i] for i in order], [], [])
    np.testing.assert_array_equal(targets, POSITIONS)


def test_velocities_of_zero_alone_mean_damp():
    assert joint_targets(JOINTS, JOINTS, [], [0.0] * 3, []) is None


@pytest.mark.parametrize(
    ("names", "positions", "velocities", "named"),
    [
        (JOINTS[:2], POSITIONS[:2], [], "missing .'tail'."),
        ((*JOINTS[:2], "hip"), POSITIONS, [], "unknown .'hip'."),
        ((*JOINTS, "tail"), [*POSITIONS, 0.0], [], "twice"),
        (JOINTS, POSITIONS[:2], [], "2 positions for 3 joints"),
        (JOINTS, [], [], "no positions"),
        (JOINTS, POSITIONS, [1.0] * 3, "positions only"),
        (JOINTS, [], [math.nan] * 3, "positions only"),
        (JOINTS, [*POSITIONS[:2], math.nan], [], "tail"),
        (JOINTS, [math.inf, *POSITIONS[1:]], [], "left_knee"),
    ],
)
def test_a_command_that_cannot_be_followed_is_refused(names, positions, velocities, named):
    with pytest.raises(RefusedCommandError, match=named):
        joint_targets(JOINTS, names, positions, velocities, [])
