"""Which of two states is the later one, by a tick of 32 bits."""

import pytest

from unitree_lowlevel.transport import RESTART_AFTER, TickAge, TickOrder


def ages(*ticks):
    order = TickOrder()
    return [order.classify(tick).value for tick in ticks]


def test_a_tick_that_advances_is_new_however_far():
    assert ages(100, 102, 104, 90_000, 1_000_000_000) == ["new"] * 5


def test_the_same_tick_is_a_duplicate():
    assert ages(100, 100, 102, 102) == ["new", "duplicate", "new", "duplicate"]


def test_an_overtaken_state_is_old_and_the_newest_stays_the_newest():
    assert ages(100, 104, 102, 104, 106) == ["new", "new", "old", "duplicate", "new"]


def test_the_tick_may_wrap_round():
    assert ages(2**32 - 2, 0, 2, 2**32 - 1, 4) == ["new", "new", "new", "old", "new"]


@pytest.mark.parametrize("up_for", [200, 900_000, 2_000_000_000])
@pytest.mark.parametrize("step", [1, 2, 2000])
def test_a_board_that_started_anew_is_accepted_after_a_few_states(up_for, step):
    order = TickOrder()
    order.classify(up_for * step % 2**31)
    early = [order.classify(step * count) for count in range(1, RESTART_AFTER + 2)]
    assert early == [TickAge.OLD] * (RESTART_AFTER - 1) + [TickAge.RESTART, TickAge.NEW]


def test_overtaken_states_between_new_ones_are_never_a_restart():
    order = TickOrder()
    order.classify(1000)
    for tick in range(1002, 1200, 2):
        assert order.classify(tick) is TickAge.NEW
        assert order.classify(tick - 6) is TickAge.OLD


def test_old_states_that_do_not_advance_are_never_a_restart():
    order = TickOrder()
    order.classify(1000)
    assert {order.classify(500) for _ in range(100)} == {TickAge.OLD}
    assert {order.classify(tick) for tick in range(900, 500, -2)} == {TickAge.OLD}
