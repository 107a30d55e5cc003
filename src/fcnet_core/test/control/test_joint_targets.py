"""What bridges make of joint_trajectory messages."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcnet_core.control.limiter import joint_targets
from fcnet_core.errors import RefusedCommandError
from fcnet_core.robot import JOINT_NAMES

POSITIONS = [0.1 * index for index in range(12)]


@given(st.permutations(range(12)))
def test_joints_are_matched_by_name_in_any_order(order):
    targets = joint_targets([JOINT_NAMES[i] for i in order], [POSITIONS[i] for i in order], [], [])
    np.testing.assert_array_equal(targets, POSITIONS)


def test_velocities_of_zero_alone_mean_damp():
    assert joint_targets(JOINT_NAMES, [], [0.0] * 12, []) is None


@pytest.mark.parametrize(
    ("names", "positions", "velocities", "sentence"),
    [
        (JOINT_NAMES[:11], POSITIONS[:11], [], "missing .'RL_calf_joint'."),
        ((*JOINT_NAMES[:11], "tail_joint"), POSITIONS, [], "unknown .'tail_joint'."),
        ((*JOINT_NAMES, "FR_hip_joint"), [*POSITIONS, 0.0], [], "named twice"),
        (JOINT_NAMES, POSITIONS[:5], [], "5 positions for 12 joints"),
        (JOINT_NAMES, [], [], "no positions"),
        (JOINT_NAMES, POSITIONS, [1.0] * 12, "positions only"),
        (JOINT_NAMES, [], [math.nan] * 12, "positions only"),
        (JOINT_NAMES, [*POSITIONS[:11], math.nan], [], "RL_calf_joint is not a finite number"),
        (JOINT_NAMES, [math.inf, *POSITIONS[1:]], [], "FR_hip_joint is not a finite number"),
    ],
)
def test_a_command_that_cannot_be_followed_is_refused_with_a_sentence(names, positions, velocities, sentence):
    with pytest.raises(RefusedCommandError, match=sentence):
        joint_targets(names, positions, velocities, [])
