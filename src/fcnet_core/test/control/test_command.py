"""Whatever is asked for, the policy sees commands within its ranges that change no faster than they may. The gait clock
is a function of commands and time: it starts at once and stops on whole or half strides.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec import structs

from fcnet_core.control.command import CommandShaper, GaitClock
from fcnet_core.robot import SETPOINT_FIELDS, load_robot

ROBOT = load_robot("aliengo")
PERIOD = 0.02
LOWEST, HIGHEST, RATE = np.array([structs.astuple(ROBOT.commands[field]) for field in SETPOINT_FIELDS]).T
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


SLOWEST_HALF_STRIDE = 0.5 / (ROBOT.gait.frequency + ROBOT.commands["frequency"].lowest)
speeds = st.one_of(st.just(0.0), st.floats(ROBOT.commands["vx"].lowest, ROBOT.commands["vx"].highest))
offsets = st.floats(ROBOT.commands["frequency"].lowest, ROBOT.commands["frequency"].highest)
# Stretches of constant commands: (speed, frequency offset, periods).
drives = st.lists(st.tuples(speeds, offsets, st.integers(1, 60)), min_size=1, max_size=6)


@given(drives)
def test_the_clock_moves_by_its_frequency_stops_after_half_strides_and_lingers_after_commands(drive) -> None:
    gait, since = GaitClock(ROBOT.gait, PERIOD), np.inf
    for wanted in [wish(vx=vx, frequency=frequency) for vx, frequency, count in drive for _ in range(count)]:
        before, walked = gait.phase[0], gait.walking[0]
        gait.advance(wanted)
        assert 0.0 <= gait.phase[0] < 1.0
        moved, step = (gait.phase[0] - before) % 1.0, gait.frequency(wanted)[0] * PERIOD
        if gait.walking[0]:
            assert moved == pytest.approx(step)
        else:
            assert gait.phase[0] in (0.0, 0.5)
            assert moved <= step if walked else moved == 0.0  # never back, never ahead
        since = 0.0 if abs(wanted[0, 0]) > ROBOT.gait.threshold else since + PERIOD
        if since < ROBOT.gait.linger - 1e-9:
            assert gait.walking[0]
        if since > ROBOT.gait.linger + SLOWEST_HALF_STRIDE + 2 * PERIOD:
            assert not gait.walking[0]


@pytest.mark.parametrize("field", ["vx", "vy", "yaw_rate"])
def test_every_direction_of_motion_moves_the_clock_and_posture_does_not(field) -> None:
    gait = GaitClock(ROBOT.gait, PERIOD)
    still = dict.fromkeys(("height", "roll", "pitch", "width", "clearance", "frequency"), 0.2)
    gait.advance(wish(**still))
    assert not gait.walking[0]
    gait.advance(wish(**still, **{field: -0.3}))
    assert gait.walking[0]


def test_strides_are_faster_above_the_knee_speed() -> None:
    gait, knee = GaitClock(ROBOT.gait, PERIOD), ROBOT.gait.speed_knee
    slow, fast = (gait.frequency(wish(vx=vx))[0] for vx in (knee, knee + 0.6))
    assert slow == pytest.approx(ROBOT.gait.frequency)
    assert fast == pytest.approx(ROBOT.gait.frequency + 0.6 * ROBOT.gait.frequency_gain)
