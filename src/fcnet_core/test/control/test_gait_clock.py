"""The gait clock is a function of commands and time: it starts at once and stops on whole or half strides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcnet_core.control.command import GaitClock
from fcnet_core.robot import SETPOINT_FIELDS, load_robot

ROBOT = load_robot("aliengo")
PERIOD = 0.02
SLOWEST_HALF_STRIDE = 0.5 / (ROBOT.gait.frequency + ROBOT.commands["frequency"].lowest)
speeds = st.one_of(st.just(0.0), st.floats(ROBOT.commands["vx"].lowest, ROBOT.commands["vx"].highest))
offsets = st.floats(ROBOT.commands["frequency"].lowest, ROBOT.commands["frequency"].highest)
# Stretches of constant commands: (speed, frequency offset, periods).
drives = st.lists(st.tuples(speeds, offsets, st.integers(1, 60)), min_size=1, max_size=6)


def setpoint(vx: float, frequency: float = 0.0) -> np.ndarray:
    wanted = np.zeros((1, len(SETPOINT_FIELDS)))
    wanted[0, SETPOINT_FIELDS.index("vx")] = vx
    wanted[0, SETPOINT_FIELDS.index("frequency")] = frequency
    return wanted


def clock() -> GaitClock:
    return GaitClock(ROBOT.gait, PERIOD)


@given(drives)
def test_it_moves_by_its_frequency_stops_after_half_strides_and_lingers_after_commands(drive) -> None:
    gait, since = clock(), np.inf
    for wanted in [setpoint(vx, frequency) for vx, frequency, count in drive for _ in range(count)]:
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
def test_every_direction_of_motion_makes_it_walk_and_posture_does_not(field) -> None:
    gait, wanted = clock(), np.zeros((1, len(SETPOINT_FIELDS)))
    for still in ("height", "roll", "pitch", "width", "clearance", "frequency"):
        wanted[0, SETPOINT_FIELDS.index(still)] = 0.2
    gait.advance(wanted)
    assert not gait.walking[0]
    wanted[0, SETPOINT_FIELDS.index(field)] = -0.3
    gait.advance(wanted)
    assert gait.walking[0]


def test_it_strides_faster_above_the_knee_speed() -> None:
    gait, knee = clock(), ROBOT.gait.speed_knee
    assert gait.frequency(setpoint(knee))[0] == pytest.approx(ROBOT.gait.frequency)
    assert gait.frequency(setpoint(knee + 0.6))[0] == pytest.approx(
        ROBOT.gait.frequency + 0.6 * ROBOT.gait.frequency_gain
    )
