"""Whatever is asked for, the policy sees commands within its ranges that change no faster than they may."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fcnet_core.control.command import CommandShaper
from fcnet_core.robot import SETPOINT_FIELDS, load_robot

ROBOT = load_robot("aliengo")
PERIOD = 0.02
LOWEST, HIGHEST, RATE = (
    np.array([getattr(ROBOT.commands[field], name) for field in SETPOINT_FIELDS])
    for name in ("lowest", "highest", "rate")
)
anything = st.floats(allow_nan=False, allow_infinity=True)
wishes = st.lists(arrays(np.float64, (2, len(SETPOINT_FIELDS)), elements=anything), min_size=1, max_size=20)


def shaper(batch: int = 1) -> CommandShaper:
    return CommandShaper(ROBOT.commands, ROBOT.gait, PERIOD, batch)


def wish(**fields: float) -> np.ndarray:
    return np.array([[fields.get(field, 0.0) for field in SETPOINT_FIELDS]])


@given(wishes)
def test_setpoints_stay_in_range_and_rate_whatever_is_asked_for(sequence) -> None:
    limited = shaper(batch=2)
    for wanted in sequence:
        before = limited.setpoint
        limited.step(wanted)
        assert ((limited.setpoint >= LOWEST) & (limited.setpoint <= HIGHEST)).all()
        assert (np.abs(limited.setpoint - before) <= RATE * PERIOD + 1e-12).all()


@given(wishes, st.integers(0, len(SETPOINT_FIELDS) - 1))
def test_nan_is_refused_before_anything_changes(sequence, field) -> None:
    disturbed, calm = shaper(batch=2), shaper(batch=2)
    for wanted in sequence:
        bad = wanted.copy()
        bad[1, field] = np.nan
        with pytest.raises(ValueError, match="not a number; send finite commands"):
            disturbed.step(bad)
        for one in (disturbed, calm):
            one.step(wanted)
        np.testing.assert_array_equal(disturbed.setpoint, calm.setpoint)


@pytest.mark.parametrize("field", SETPOINT_FIELDS)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_setpoint_reaches_its_limit_in_the_time_its_rate_takes_and_stays(field, sign) -> None:
    limited, index = shaper(), SETPOINT_FIELDS.index(field)
    limit = (HIGHEST if sign > 0 else LOWEST)[index]
    steps = int(np.ceil(abs(limit) / (RATE[index] * PERIOD) - 1e-9))
    for _ in range(steps - 1):
        limited.step(wish(**{field: sign * np.inf}))
    assert abs(limited.setpoint[0, index]) < abs(limit)
    for _ in range(3):
        limited.step(wish(**{field: sign * np.inf}))
        assert limited.setpoint[0, index] == pytest.approx(limit)


def test_slow_velocities_within_the_deadband_count_as_zero() -> None:
    limited = CommandShaper(ROBOT.commands, ROBOT.gait, PERIOD, deadband=0.2)
    limited.step(wish(vx=0.15, vy=0.1, yaw_rate=0.1))
    np.testing.assert_array_equal(limited.target, wish(yaw_rate=0.1))
    limited.step(wish(vx=0.2, vy=0.1))
    np.testing.assert_array_equal(limited.target, wish(vx=0.2, vy=0.1))


@given(wishes)
def test_a_batch_is_its_robots_and_reset_touches_only_the_chosen(sequence) -> None:
    batch, singles = shaper(batch=2), [shaper(), shaper()]
    for index, wanted in enumerate(sequence):
        if index == len(sequence) // 2:
            batch.reset(np.array([False, True]))
            singles[1].reset()
        batch.step(wanted)
        for robot, single in enumerate(singles):
            single.step(wanted[robot : robot + 1])
            np.testing.assert_array_equal(single.setpoint[0], batch.setpoint[robot])
            assert single.clock.phase[0] == batch.clock.phase[robot]
            assert single.clock.walking[0] == batch.clock.walking[robot]
