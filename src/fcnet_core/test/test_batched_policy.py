"""Robots of a batch do not know of each other."""

from __future__ import annotations

import numpy as np
import pytest

from fcnet_core.observation import NonFiniteObservation
from fcnet_core.policies.fcnet.batched import BatchedPolicy
from fcnet_core.policies.fcnet.numpy_step import NumpyPolicy

BATCH = 5


def noise(steps: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((steps, BATCH, 11)).astype(np.float32)


@pytest.mark.parametrize("window_policy", ["sliding", "reset_every_n"])
def test_a_batch_equals_single_robots_that_are_reset_at_different_times(small, window_policy) -> None:
    model = small.with_card(window_policy=window_policy)
    batch, singles = BatchedPolicy(model, BATCH), [NumpyPolicy(model) for _ in range(BATCH)]
    resets = np.random.default_rng(4).random((90, BATCH)) < 0.05
    assert resets.any(axis=1).sum() > 5
    for observations, mask in zip(noise(90), resets, strict=True):
        batch.reset(mask)
        for single in (singles[robot] for robot in np.flatnonzero(mask)):
            single.reset()
        expected = [single.step(observation) for single, observation in zip(singles, observations, strict=True)]
        np.testing.assert_allclose(batch.step(observations), expected, atol=2e-6, rtol=0)


def test_one_bad_observation_is_refused_for_all_and_named(small) -> None:
    batch, untouched = BatchedPolicy(small.model, BATCH), BatchedPolicy(small.model, BATCH)
    observations = noise(20)
    for step in range(20):
        bad = observations[step].copy()
        bad[2, 7] = np.nan
        with pytest.raises(NonFiniteObservation, match=r"\[2, 7\]"):
            batch.step(bad)
        np.testing.assert_array_equal(batch.step(observations[step]), untouched.step(observations[step]))


def test_reset_of_all_is_a_cold_start(small) -> None:
    batch = BatchedPolicy(small.model, BATCH)
    first = batch.step(noise(1)[0])
    for observations in noise(30):
        batch.step(observations)
    batch.reset()
    np.testing.assert_allclose(batch.step(noise(1)[0]), first, atol=1e-6, rtol=0)
