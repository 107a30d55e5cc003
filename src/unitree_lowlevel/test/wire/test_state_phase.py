"""The loop's cycles and the arrival of states."""

import numpy as np
import pytest

from unitree_lowlevel.io_process import StatePhase

PERIOD = 0.002


def cycles_with_a_state(first_arrival, jitter, seconds=10.0, aligned=True):
    """Share of the last second's cycles that find a state, and cycles per second, for states PERIOD apart."""
    rng = np.random.default_rng(0)
    states = int(seconds / PERIOD) + 100
    arrivals = np.sort(first_arrival + PERIOD * np.arange(states) + jitter * rng.random(states))
    phase, now, found, received = StatePhase(PERIOD), 0.0, [], 0
    while now < seconds:
        now += PERIOD
        arrived = int(np.searchsorted(arrivals, now))
        found.append(arrived > received)
        received = arrived
        if aligned:
            now += phase.shift(received, now)
    return np.mean(found[-500:]), len(found) / seconds


def test_states_that_come_at_about_the_time_of_a_cycle_are_all_found_after_a_while():
    found, _ = cycles_with_a_state(PERIOD - 0.0001, jitter=0.0003, aligned=False)
    assert found < 0.9
    found, rate = cycles_with_a_state(PERIOD - 0.0001, jitter=0.0003)
    assert found == 1.0
    assert rate > 499.0


@pytest.mark.parametrize("jitter", [0.0, 0.002, 0.01])
def test_no_jitter_makes_the_loop_slow(jitter):
    _, rate = cycles_with_a_state(0.0005, jitter)
    assert rate > 499.0
