"""The runtimes of the Fourier Controller Network are the published network, and its spectra are the published ones."""

from __future__ import annotations

import numpy as np
import pytest
from policy_forms import every_form

from fcnet_core.policy import LoadedPolicy, load_policy


def numba_spectra(policy: LoadedPolicy) -> np.ndarray:
    """Spectral states (L, m, d), complex."""
    parts = np.moveaxis(policy.runtime.memory.spectrum, 1, 3)  # (L, m, 2, d / LANES, LANES)
    real, imaginary = np.moveaxis(parts.reshape(*parts.shape[:3], -1), 2, 0)[..., : policy.model.card.config.hidden]
    return real + 1j * imaginary


def numpy_spectra(policy: LoadedPolicy) -> np.ndarray:
    return policy.runtime.network.memory.spectrum[:, 0]


@every_form
def test_the_outputs_are_those_of_the_published_network_far_beyond_its_window(form, golden) -> None:
    for observations, outputs in zip(golden.observation, golden.output, strict=True):
        np.testing.assert_allclose(form(golden.model, observations), outputs, atol=3e-6, rtol=0)


@pytest.mark.parametrize(("runtime", "spectra"), [("numba", numba_spectra), ("numpy", numpy_spectra)])
def test_the_spectra_are_those_of_the_published_network(runtime, spectra, golden) -> None:
    for sequence, observations in enumerate(golden.observation):
        policy = load_policy(golden.model, runtime)
        for step, observation in enumerate(observations, start=1):
            policy.step(observation)
            if step in golden.spectra:
                published = golden.spectra[step][:, sequence]  # float32, with the errors of 200 float32 steps
                np.testing.assert_allclose(spectra(policy), published, atol=1e-5 * np.abs(published).max(), rtol=0)
