"""Which of two states is the later one, by a tick of 32 bits."""

import pytest

from unitree_lowlevel.transport import RESTART_AFTER, TickAge, TickOrder


@pytest.mark.parametrize(
    ("ticks", "ages"),
    [
        ((100, 102, 104, 90_000, 1_000_000_000), "new new new new new"),
        ((100, 100, 102, 102), "new duplicate new duplicate"),
        ((100, 104, 102, 104, 106), "new new old duplicate new"),
        ((2**32 - 2, 0, 2, 2**32 - 1, 4), "new new new old new"),
    ],
    ids=["advancing", "duplicates", "overtaken", "wrapping"],
)
def test_a_state_is_new_a_duplicate_or_old_by_its_tick(ticks, ages):
    order = TickOrder()
    assert [order.classify(tick).value for tick in ticks] == ages.split()


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
