"""The loop's cycles and the arrival of states."""

import numpy as np
import pytest

from unitree_lowlevel.io_process import StatePhase

PERIOD = 0.002


@pytest.mark.parametrize(
    ("first_arrival", "jitter", "found"),
    [(PERIOD - 0.0001, 0.0003, 1.0), (0.0005, 0.0, 1.0), (0.0005, 0.002, 0.0), (0.0005, 0.01, 0.0)],
)
def test_states_that_come_at_about_the_time_of_a_cycle_are_found_after_a_while_and_no_jitter_makes_the_loop_slow(
    first_arrival, jitter, found
):
    """found: least share of the last second's cycles that find a state, for states PERIOD apart."""
    arrivals = np.sort(first_arrival + PERIOD * np.arange(5100) + jitter * np.random.default_rng(0).random(5100))
    phase, now, finds, received = StatePhase(PERIOD), 0.0, [], 0
    while now < 10.0:
        now += PERIOD
        arrived = int(np.searchsorted(arrivals, now))
        finds.append(arrived > received)
        received = arrived
        now += phase.shift(received, now)
    assert np.mean(finds[-500:]) >= found
    assert len(finds) / 10.0 > 499.0
