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


def test_it_counts_commands_and_bad_datagrams_keeps_recent_ones_and_the_largest_values_until_a_reset():
    log = CommandLog(keep=2)
    for time in (1.0, 1.002, 1.005):
        log.record(SOFT, time)
    for kind in ("checksum", "checksum", "not_finite"):
        log.record_bad(kind)
    assert (log.count, dict(log.bad), log.non_finite) == (3, {"checksum": 2, "not_finite": 1}, 1)
    assert (log.last, log.last_arrival, log.last_stiff()) == (SOFT, 1.005, None)
    np.testing.assert_allclose(log.intervals, [0.002, 0.003])
    for time, command in ((1.007, replace(STIFF, torque=np.linspace(-9.0, 1.0, 12))), (1.009, SOFT)):
        log.record(command, time)
    assert (log.largest_stiffness, log.largest_damping, log.largest_torque) == (60.0, 4.0, 9.0)
    assert log.last_stiff() == 1.007
    assert [arrival for arrival, _ in log.recent] == [1.007, 1.009]
    log.reset()
    assert (log.count, log.last, log.last_arrival, log.recent, log.last_stiff()) == (0, None, None, [], None)


def test_positions_and_their_rates_count_only_while_a_joint_is_stiff():
    log = CommandLog()
    log.record(replace(SOFT, position=np.full(12, 99.0)), 0.0)
    log.record(replace(STIFF, position=np.full(12, POSITION_STOP)), 0.002)
    log.record(replace(STIFF, position=np.full(12, -99.0), mode=np.full(12, OFF, np.uint8)), 0.004)
    assert not np.isfinite(log.highest_position).any()
    log.record(_at(1.0), 0.006)  # the first stiff one is no step
    assert log.largest_rate == 0.0
    log.record(_at(1.1), 0.016)
    assert log.largest_rate == pytest.approx(10.0)
    log.record(_at(1.06), 0.0161)  # arrived in a bunch
    assert log.largest_rate == pytest.approx(20.0)
    assert (log.lowest_position == 1.0).all()
    assert (log.highest_position == 1.1).all()
