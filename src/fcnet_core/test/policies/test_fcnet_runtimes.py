"""The runtimes of the Fourier Controller Network are the published network, and its spectra do not drift."""

from dataclasses import replace

import numpy as np
from policy_forms import every_form, steps_of_network

from fcnet_core.policies.export import exported_step
from fcnet_core.policy import load_policy

STEPS = 100_000  # half an hour at 50 Hz


@every_form("fcnet")
def test_the_outputs_are_those_of_the_published_network_far_beyond_its_window(form, golden) -> None:
    model = replace(golden.model, step=exported_step(golden.model.card.config))
    for observations, outputs in zip(golden.observation, golden.output, strict=True):
        np.testing.assert_allclose(form(model, observations), outputs, atol=3e-6, rtol=0)
        np.testing.assert_allclose(steps_of_network(model, observations[:100]), outputs[:100], atol=3e-6, rtol=0)


def test_after_half_an_hour_the_sliding_dft_is_that_of_its_window(small) -> None:
    policy, fresh = load_policy(small.model, "numba"), load_policy(small.model, "numba")
    observations = np.random.default_rng(11).standard_normal((STEPS, 11)).astype(np.float32)
    memory, config = int(small.model.card.memory), small.model.card.config
    for observation in observations[: -memory - 1]:
        policy.step(observation)
    for observation in observations[-memory - 1 :]:
        action, expected = policy.step(observation), fresh.step(observation)
    np.testing.assert_allclose(action, expected, atol=1e-6, rtol=0)
    oldest_first = np.roll(policy.runtime.state["inputs"][0], -(STEPS % config.window), axis=1).astype(np.float64)
    exact = np.fft.fft(oldest_first, axis=1)[:, : config.modes]  # (L, m, d)
    real, imaginary = np.moveaxis(policy.runtime.state["spectrum"][0], 1, 0)
    assert np.abs(real + 1j * imaginary - exact).max() < 1e-9
