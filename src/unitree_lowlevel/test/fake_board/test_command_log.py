"""What the log of commands can answer afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unitree_lowlevel.codec import OFF, POSITION_STOP, SERVO, LowCommand
from unitree_lowlevel.fake_board.command_log import CommandLog

SOFT = LowCommand(np.full(12, SERVO, np.uint8), *np.zeros((3, 12)), stiffness=np.zeros(12), damping=np.full(12, 4.0))
STIFF = replace(SOFT, stiffness=np.full(12, 60.0))


def _at(position: float) -> LowCommand:
    return replace(STIFF, position=np.full(12, position))


def test_it_counts_commands_and_bad_datagrams_by_kind_and_keeps_the_largest_gains_and_torque():
    log = CommandLog()
    for time in (1.0, 1.002, 1.005):
        log.record(SOFT, time)
    for kind in ("checksum", "checksum", "not_finite"):
        log.record_bad(kind)
    assert (log.count, dict(log.bad), log.non_finite) == (3, {"checksum": 2, "not_finite": 1}, 1)
    assert log.last is SOFT
    assert log.last_arrival == 1.005
    np.testing.assert_allclose(log.intervals, [0.002, 0.003])
    log.record(replace(STIFF, torque=np.linspace(-9.0, 1.0, 12)), 1.007)
    assert (log.largest_stiffness, log.largest_damping, log.largest_torque) == (60.0, 4.0, 9.0)


def test_positions_count_only_where_a_joint_is_stiff():
    log = CommandLog()
    log.record(replace(SOFT, position=np.full(12, 99.0)), 0.0)
    log.record(replace(STIFF, position=np.full(12, POSITION_STOP)), 0.002)
    log.record(replace(STIFF, position=np.full(12, -99.0), mode=np.full(12, OFF, np.uint8)), 0.004)
    assert not np.isfinite(log.highest_position).any()
    for position in (0.5, 0.7, 0.4):
        log.record(_at(position), 0.006)
    assert (log.lowest_position == 0.4).all()
    assert (log.highest_position == 0.7).all()


def test_the_rate_of_targets_is_that_of_successive_stiff_commands():
    log = CommandLog()
    log.record(replace(SOFT, position=np.full(12, 9.0)), 0.0)
    log.record(_at(1.0), 0.002)  # the first stiff one is no step
    assert log.largest_rate == 0.0
    log.record(_at(1.1), 0.012)
    assert log.largest_rate == pytest.approx(10.0)
    log.record(_at(1.14), 0.0121)  # arrived in a bunch
    assert log.largest_rate == pytest.approx(20.0)
    assert log.largest_step == pytest.approx(0.1)


def test_it_knows_when_stiffness_ended():
    log = CommandLog()
    for time, command in enumerate([SOFT, STIFF, STIFF, SOFT, STIFF, SOFT]):
        log.record(command, float(time))
    assert log.first_soft_after(0.5) == 3.0
    assert log.first_soft_after(3.0) == 5.0
    assert log.first_soft_after(5.0) is None
    assert log.last_stiff() == 4.0


def test_it_keeps_recent_commands_and_forgets_everything_on_demand():
    log = CommandLog(keep=2)
    for time in range(4):
        log.record(_at(float(time)), float(time))
    assert [arrival for arrival, _ in log.recent] == [2.0, 3.0]
    log.reset()
    assert (log.count, log.last, log.last_arrival, log.recent) == (0, None, None, [])
    assert log.last_stiff() is None
