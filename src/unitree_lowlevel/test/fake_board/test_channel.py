"""One direction of an unreliable line, in a time of its own."""

from __future__ import annotations

import math

import pytest

from unitree_lowlevel.fake_board.faults import OVERTAKEN, BoardFaults, Channel

PACKETS = 2000
PERIOD = 0.002


def _carried(faults: BoardFaults, seed: int = 0) -> list[tuple[float, int]]:
    """What comes out, and when, of packets 0, 1, 2, ... put in every 2 ms; looked at every 0.1 ms."""
    line: Channel[int] = Channel(seed)
    arrived: list[tuple[float, int]] = []
    for packet in range(PACKETS):
        line.put(packet, packet * PERIOD, faults)
        for look in range(20):
            now = packet * PERIOD + look * PERIOD / 20
            arrived += [(now, each) for each in line.take(now)]
    return arrived + [(math.inf, each) for each in line.take(math.inf)]


def _order(faults: BoardFaults) -> list[int]:
    return [packet for _, packet in _carried(faults)]


def test_a_good_line_carries_everything_at_once_and_in_order():
    assert _carried(BoardFaults()) == [(packet * PERIOD, packet) for packet in range(PACKETS)]


@pytest.mark.parametrize(
    ("faults", "shortest", "longest"),
    [(BoardFaults(delay=0.011), 0.011, 0.011), (BoardFaults(jitter=0.01), 0.0, 0.01)],
    ids=["delay", "jitter"],
)
def test_a_delay_is_kept_and_jitter_is_spread_evenly_over_its_range(faults, shortest, longest):
    late = [time - packet * PERIOD for time, packet in _carried(faults) if math.isfinite(time)]
    assert shortest - 1e-9 <= min(late) < shortest + 0.001
    assert longest - 0.001 < max(late) < longest + 0.0002
    assert sum(late) / len(late) == pytest.approx((shortest + longest) / 2, rel=0.1)


def test_loss_and_duplicates_keep_their_shares():
    order = _order(BoardFaults(loss=0.2))
    assert len(order) == pytest.approx(0.8 * PACKETS, rel=0.05)
    assert len(set(order)) == len(order)
    doubled = _order(BoardFaults(duplicates=0.2))
    assert set(doubled) == set(range(PACKETS))
    assert len(doubled) == pytest.approx(1.2 * PACKETS, rel=0.05)


def test_reordered_packets_arrive_after_later_ones_and_none_is_lost():
    order = _order(BoardFaults(reordering=0.1))
    assert sorted(order) == list(range(PACKETS))
    overtaken = sum(later < max(order[:place], default=-1) for place, later in enumerate(order))
    assert overtaken == pytest.approx(0.1 * PACKETS, rel=0.3)
    assert OVERTAKEN > 2 * PERIOD


def test_chance_is_the_same_for_the_same_seed():
    faults = BoardFaults(loss=0.1, duplicates=0.1, reordering=0.1, jitter=0.003)
    assert _carried(faults, seed=3) == _carried(faults, seed=3)
    assert _carried(faults, seed=3) != _carried(faults, seed=4)


def test_next_due_is_the_time_of_the_next_packet():
    line: Channel[str] = Channel(0)
    assert line.next_due == math.inf
    line.put("late", 1.0, BoardFaults(delay=0.5))
    assert line.next_due == 1.5
    assert line.take(1.4) == []
    assert line.take(1.5) == ["late"]
