"""The float64 Sliding DFT does not drift: 100,000 steps are half an hour at 50 Hz."""

from __future__ import annotations

import numpy as np

from fcnet_core.policy import load_policy

STEPS = 100_000


def test_after_half_an_hour_the_sliding_dft_is_that_of_its_window(small) -> None:
    policy, fresh = load_policy(small.model, "numba"), load_policy(small.model, "numba")
    observations = np.random.default_rng(11).standard_normal((STEPS, 11)).astype(np.float32)
    memory = int(small.model.card.memory)
    for observation in observations[: -memory - 1]:
        policy.step(observation)
    for observation in observations[-memory - 1 :]:
        action, expected = policy.step(observation), fresh.step(observation)
    np.testing.assert_allclose(action, expected, atol=1e-6, rtol=0)
    config, state = small.model.card.config, policy.runtime.memory
    oldest_first = np.roll(state.inputs, -(STEPS % config.window), axis=1).astype(np.float64)
    exact = np.fft.fft(oldest_first, axis=1)[:, : config.modes]  # (L, m, d), d with zeros up to whole vectors
    parts = np.moveaxis(state.spectrum, 1, 3)  # (L, m, 2, d / LANES, LANES)
    real, imaginary = np.moveaxis(parts.reshape(*parts.shape[:3], -1), 2, 0)
    assert np.abs(real + 1j * imaginary - exact).max() < 1e-9
