"""What the log of commands can answer afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unitree_lowlevel.codec import OFF, POSITION_STOP, SERVO, LowCommand
from unitree_lowlevel.fake_board.board import CommandLog

SOFT = LowCommand(np.full(12, SERVO, np.uint8), *np.zeros((3, 12)), stiffness=np.zeros(12), damping=np.full(12, 4.0))
STIFF = replace(SOFT, stiffness=np.full(12, 60.0))


def test_it_counts_commands_and_bad_datagrams_keeps_recent_ones_until_a_reset():
    log = CommandLog(keep=2)
    for time in (1.0, 1.002, 1.005):
        log.record(SOFT, time)
    for kind in ("checksum", "checksum", "not_finite"):
        log.record_bad(kind)
    assert (log.count, dict(log.bad)) == (3, {"checksum": 2, "not_finite": 1})
    assert (log.last, log.last_arrival, log.last_stiff()) == (SOFT, 1.005, None)
    np.testing.assert_allclose(log.intervals, [0.002, 0.003])
    log.record(STIFF, 1.007)
    for change in ({}, {"position": np.full(12, POSITION_STOP)}, {"mode": np.full(12, OFF, np.uint8)}):
        log.record(replace(STIFF if change else SOFT, **change), 1.009)
    assert log.last_stiff() == 1.007
    assert [arrival for arrival, _ in log.recent] == [1.009, 1.009]
    log.reset()
    assert (log.count, log.last, log.last_arrival, log.recent, log.last_stiff()) == (0, None, None, [], None)
