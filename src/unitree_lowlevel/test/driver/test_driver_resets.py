"""A trip is left only by a reset once its cause has gone, and nothing moves by itself afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from fcnet_core.errors import FcnetError
from unitree_lowlevel.codec import RemoteState, encode_remote
from unitree_lowlevel.driver import DriverMode

STOP = RemoteState(frozenset({"L2", "B"}))
ON_ITS_SIDE = np.array([np.sin(0.7), 0.0, 0.0, np.cos(0.7)])


def test_a_trip_is_left_only_through_reset_once_the_cause_has_gone(bench):
    bench.following()
    bench.state = {"orientation": ON_ITS_SIDE}
    bench.run(0.1, bench.position)
    with pytest.raises(FcnetError):
        bench.driver.reset(bench.now)
    bench.state = {}
    bench.run(1.0, bench.position)
    bench.driver.damp()
    bench.driver.deactivate()
    bench.driver.activate()
    bench.run(0.2)
    assert bench.driver.mode is DriverMode.TRIPPED
    bench.driver.reset(bench.now)
    bench.cycle()
    assert bench.driver.mode is DriverMode.DAMPING


def test_after_a_reset_targets_are_followed_only_after_a_damp(bench):
    bench.following().driver.emergency_stop("the button was pressed")
    bench.run(0.2, bench.position)
    assert bench.damped
    bench.driver.reset(bench.now)
    bench.run(1.0, bench.position)
    assert bench.damped
    bench.driver.damp()
    bench.run(0.5, bench.position)
    assert bench.driver.mode is DriverMode.FOLLOWING


def test_the_remotes_stop_must_be_released_before_a_reset(bench):
    bench.following()
    bench.state = {"remote": encode_remote(STOP)}
    bench.cycle()
    with pytest.raises(FcnetError):
        bench.driver.reset(bench.now)
    bench.state = {"remote": encode_remote(RemoteState(frozenset({"L2"})))}
    bench.cycle()
    bench.driver.reset(bench.now)


def test_another_robot_is_accepted_by_a_reset(bench):
    bench.awake()
    bench.state = {"identity": (7, 7)}
    bench.cycle()
    assert bench.driver.trip.name == "identity"
    bench.driver.reset(bench.now)
    bench.run(0.1)
    assert bench.driver.mode is DriverMode.DAMPING


def test_without_a_trip_there_is_nothing_to_reset(bench):
    assert "nothing to reset" in bench.driver.reset(bench.now)


def test_a_robot_that_restarts_while_damped_can_be_followed_again(bench):
    bench.awake()
    bench.silent = True
    bench.run(3.0)
    bench.silent, bench._tick = False, 0
    bench.run(0.2)
    assert bench.driver.mode is DriverMode.DAMPING
    assert bench.send(bench.position) is None
