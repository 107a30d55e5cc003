"""Setpoints stay in their ranges, hold, and change."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fcnet_core.robot import SETPOINT_FIELDS
from quadruped_sim.tasks.setpoints import SetpointRanges, SetpointSource

PERIOD = 0.02
VALUES = st.floats(-2, 2, allow_nan=False)
RANGES = st.dictionaries(
    st.sampled_from(SETPOINT_FIELDS), st.tuples(VALUES, VALUES).map(lambda pair: (min(pair), max(pair)))
)


def _steps(ranges: SetpointRanges, count: int = 60, batch: int = 8, seed: int = 0) -> np.ndarray:
    source = SetpointSource(ranges, batch, PERIOD, np.random.default_rng(seed))
    return np.stack([source.step().copy() for _ in range(count)])


@given(RANGES, RANGES, st.integers(0, 1000))
def test_fields_stay_in_their_ranges_and_the_others_at_zero(always, sometimes, seed):
    drawn = _steps(SetpointRanges(always, sometimes, hold=(0.1, 0.4)), seed=seed)
    for index, name in enumerate(SETPOINT_FIELDS):
        allowed = [r for r in (always.get(name, (0.0, 0.0)), sometimes.get(name)) if r]
        inside = [(low <= drawn[..., index]) & (drawn[..., index] <= high) for low, high in allowed]
        assert np.any(inside, axis=0).all(), name


@given(st.floats(0.05, 0.5), st.integers(0, 1000))
def test_a_setpoint_holds_as_long_as_it_should(hold, seed):
    drawn = _steps(SetpointRanges({"vx": (-1, 1)}, hold=(hold, hold)), seed=seed)[..., 0]
    changes = [np.flatnonzero(np.diff(robot)) + 1 for robot in drawn.T]
    expected = np.arange(round(hold / PERIOD), len(drawn), round(hold / PERIOD))
    for times in changes:
        np.testing.assert_array_equal(times, expected)


def test_shares_of_the_setpoints_stand_still_and_have_the_fields_of_sometimes():
    always = {"vx": (0.5, 1), "height": (-0.1, -0.05)}
    drawn = _steps(SetpointRanges(always, {"roll": (0.1, 0.2)}, sometimes_share=0.4, standing_share=0.3), 1, 2000)[0]
    still = (drawn[:, :3] == 0).all(axis=1)
    assert 0.25 < still.mean() < 0.35
    assert (drawn[:, SETPOINT_FIELDS.index("height")] < 0).all()  # a robot that stands may crouch
    assert 0.35 < (drawn[:, SETPOINT_FIELDS.index("roll")] > 0).mean() < 0.45


def test_a_share_of_the_setpoints_is_at_corners():
    ranges = SetpointRanges({"vx": (0.5, 1), "vy": (-0.2, 0.2)}, {"roll": (0.1, 0.2)}, 0.4, corner_share=0.3)
    drawn = _steps(ranges, 1, 4000)[0]
    corner = np.isin(drawn[:, 0], (0.5, 1)) & np.isin(drawn[:, 1], (-0.2, 0.2))
    assert 0.25 < corner.mean() < 0.35
    assert len(np.unique(drawn[corner][:, [0, 1, 4]], axis=0)) == 4 * 3  # roll is zero, or at an end
    assert not np.isin(drawn[~corner][:, :2], (0.5, 1, -0.2, 0.2)).any()
