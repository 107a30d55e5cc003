"""Whatever is asked for, the policy sees commands within its ranges that change no faster than they may."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fcnet_core.control.command import COMMAND_SIZE, CommandShaper
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
        command = limited.step(wanted)
        assert (limited.setpoint >= LOWEST).all()
        assert (limited.setpoint <= HIGHEST).all()
        assert (np.abs(limited.setpoint - before) <= RATE * PERIOD + 1e-12).all()
        assert np.isfinite(command).all()


@given(wishes, st.integers(0, len(SETPOINT_FIELDS) - 1))
def test_nan_is_refused_before_anything_changes(sequence, field) -> None:
    disturbed, calm = shaper(batch=2), shaper(batch=2)
    for wanted in sequence:
        bad = wanted.copy()
        bad[1, field] = np.nan
        with pytest.raises(ValueError, match="not a number; send finite commands"):
            disturbed.step(bad)
        np.testing.assert_array_equal(disturbed.step(wanted), calm.step(wanted))


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


def test_the_command_vector_has_the_documented_order() -> None:
    limited = shaper()
    target = wish(
        vx=0.1, vy=0.2, yaw_rate=0.3, height=-0.04, roll=0.05, pitch=0.06, width=-0.07, clearance=0.02, frequency=0.3
    )
    for _ in range(200):
        command = limited.step(target)[0]
    assert command.shape == (COMMAND_SIZE,)
    np.testing.assert_allclose(command[:8], [0.1, 0.2, 0.3, -0.04, 0.05, 0.06, -0.07, 0.02])
    angle = 2 * np.pi * limited.clock.phase[0]
    np.testing.assert_allclose(command[8:12], [np.sin(angle), np.cos(angle), 1.0, 0.3])
    np.testing.assert_array_equal(command[12:], 0.0)


def test_a_robot_without_a_command_stands() -> None:
    command = shaper().step(wish())[0]
    np.testing.assert_array_equal(command, [0] * 9 + [1] + [0] * 6)


@given(wishes)
def test_a_batch_is_its_robots_and_reset_touches_only_the_chosen(sequence) -> None:
    batch, singles = shaper(batch=2), [shaper(), shaper()]
    for index, wanted in enumerate(sequence):
        if index == len(sequence) // 2:
            batch.reset(np.array([False, True]))
            singles[1].reset()
        commands = batch.step(wanted)
        for robot, single in enumerate(singles):
            np.testing.assert_array_equal(single.step(wanted[robot : robot + 1])[0], commands[robot])
