"""A trip is left only by a reset once its cause has gone, and nothing moves by itself afterwards."""

from __future__ import annotations

import numpy as np

from unitree_lowlevel.driver import Phase
from unitree_lowlevel.messages import RemoteState, encode_remote

STOP = RemoteState(frozenset({"L2", "B"}))
ON_ITS_SIDE = np.array([np.sin(0.7), 0.0, 0.0, np.cos(0.7)])


def test_a_trip_is_left_only_through_reset_once_the_cause_has_gone(bench):
    bench.following()
    bench.state = {"orientation": ON_ITS_SIDE}
    bench.run(0.1, bench.position)
    answer = bench.driver.reset(bench.now)
    assert not answer.accepted
    assert "tilted" in answer.sentence
    bench.state = {}
    bench.run(1.0, bench.position)
    bench.driver.damp()
    bench.driver.deactivate()
    bench.driver.activate()
    bench.run(0.2)
    assert bench.driver.phase is Phase.TRIPPED
    assert bench.driver.reset(bench.now).accepted
    bench.turn()
    assert bench.driver.phase is Phase.DAMPING


def test_after_a_reset_targets_are_followed_only_after_a_pause(bench):
    bench.following().driver.emergency_stop("somebody pressed the button")
    bench.run(0.2, bench.position)
    assert bench.damped
    assert bench.driver.reset(bench.now).accepted
    bench.run(1.0, bench.position)
    assert bench.damped
    bench.run(0.1)
    bench.run(0.5, bench.position)
    assert bench.driver.phase is Phase.FOLLOWING


def test_the_remotes_stop_must_be_released_before_a_reset(bench):
    bench.following()
    bench.state = {"remote": encode_remote(STOP)}
    bench.turn()
    assert "is pressed" in bench.driver.reset(bench.now).sentence
    bench.state = {"remote": encode_remote(RemoteState(frozenset({"L2"})))}
    bench.turn()
    assert bench.driver.remote.buttons == {"L2"}
    assert bench.driver.reset(bench.now).accepted


def test_another_robot_is_accepted_by_a_reset(bench):
    bench.awake()
    bench.state = {"identity": (7, 7)}
    bench.turn()
    assert bench.driver.trip.name == "identity"
    assert bench.driver.reset(bench.now).accepted
    bench.run(0.1)
    assert bench.driver.phase is Phase.DAMPING


def test_without_a_trip_there_is_nothing_to_reset(bench):
    assert "nothing to reset" in bench.driver.reset(bench.now).sentence


def test_a_robot_that_restarts_while_damped_is_welcome_again(bench):
    bench.awake()
    bench.silent = True
    bench.run(3.0)
    bench.silent, bench._tick = False, 0
    bench.run(0.2)
    assert bench.driver.phase is Phase.DAMPING
    assert bench.send(bench.position) is None
