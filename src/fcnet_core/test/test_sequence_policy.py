"""A policy over a whole sequence does what it does step by step."""

from __future__ import annotations

import numpy as np
import pytest

from fcnet_core.observation import NonFiniteObservation
from fcnet_core.policies.fcnet.batched import SEQUENCE_BLOCK as BLOCK
from fcnet_core.policies.fcnet.batched import SequencePolicy
from fcnet_core.policies.fcnet.numpy_step import NumpyPolicy


def observations(model, steps: int):
    noise = np.random.default_rng(3).standard_normal((steps, model.card.shape.observation))
    return (model.observation_mean + model.observation_std * noise).astype(np.float32)


@pytest.mark.parametrize("steps", [1, 5, BLOCK + 70])
@pytest.mark.parametrize("window_policy", ["sliding", "reset_every_n"])
def test_it_agrees_with_the_policy_that_steps(legged, window_policy, steps) -> None:
    model = legged.with_card(window_policy=window_policy)
    seen = observations(model, steps)
    policy = NumpyPolicy(model)
    np.testing.assert_allclose(
        SequencePolicy(model).actions(seen), [policy.step(row) for row in seen], atol=2e-6, rtol=2e-6
    )


def test_every_sequence_starts_cold(walker) -> None:
    policy, seen = SequencePolicy(walker), observations(walker, 80)
    np.testing.assert_array_equal(policy.actions(seen), policy.actions(seen))


def test_a_sequence_that_is_empty_or_not_finite_is_no_surprise(walker) -> None:
    policy, seen = SequencePolicy(walker), observations(walker, 4)
    assert policy.actions(seen[:0]).shape == (0, 12)
    seen[2, 5] = np.nan
    with pytest.raises(NonFiniteObservation):
        policy.actions(seen)
