import numpy as np

from fcnet_core.control.timing import LatencyRing, Quantiles


def test_no_samples_give_zeros():
    assert LatencyRing().quantiles() == Quantiles(0.0, 0.0, 0.0)


def test_quantiles_are_those_of_the_newest_samples():
    ring = LatencyRing(size=100)
    for _ in range(50):
        ring.add(9.0)
    for duration in range(1, 101):
        ring.add(duration)
    quantiles = ring.quantiles()
    assert quantiles.p50 == 50.5
    assert np.isclose(quantiles.p99, np.quantile(np.arange(1, 101), 0.99))
    assert quantiles.largest == 100


def test_a_ring_that_is_not_full_counts_only_what_it_has():
    ring = LatencyRing(size=100)
    ring.add(2.0)
    assert ring.quantiles() == Quantiles(2.0, 2.0, 2.0)
