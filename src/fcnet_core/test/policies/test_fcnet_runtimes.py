"""The runtimes of the Fourier Controller Network are the published network, and its spectra are the published ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fcnet_core.model_file import PolicyModel
from fcnet_core.policy import LoadedPolicy, Policy, load_policy


class OneOfThree:
    """The middle robot of a batch as a Policy; its neighbours see something else."""

    def __init__(self, model: PolicyModel) -> None:
        self.batch = load_policy(model, batch=3)

    def reset(self) -> None:
        self.batch.reset()

    def step(self, observation):
        return self.batch.step(np.stack([observation * np.float32(0.5), observation, -observation]))[1]


RUNTIMES: dict[str, Callable[[PolicyModel], Policy]] = {
    "numba": lambda model: load_policy(model, "numba"),
    "numpy": lambda model: load_policy(model, "numpy"),
    "onnx": lambda model: load_policy(model, "onnx"),
    "batched": OneOfThree,
}
every_runtime = pytest.mark.parametrize("make", RUNTIMES.values(), ids=RUNTIMES)


def run(policy: Policy, observations: np.ndarray) -> np.ndarray:
    return np.stack([policy.step(observation) for observation in observations])


def numba_spectra(policy: LoadedPolicy) -> np.ndarray:
    """Spectral states (L, m, d), complex."""
    parts = np.moveaxis(policy.runtime.memory.spectrum, 1, 3)  # (L, m, 2, d / LANES, LANES)
    real, imaginary = np.moveaxis(parts.reshape(*parts.shape[:3], -1), 2, 0)[..., : policy.model.card.config.hidden]
    return real + 1j * imaginary


def numpy_spectra(policy: LoadedPolicy) -> np.ndarray:
    return policy.runtime.network.memory.spectrum[:, 0]


def noise(model: PolicyModel, steps: int, seed: int = 0) -> np.ndarray:
    shape = (steps, model.card.config.observation)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@every_runtime
def test_the_outputs_are_those_of_the_published_network_far_beyond_its_window(make, golden) -> None:
    policy = make(golden.model)
    for observations, outputs in zip(golden.observation, golden.output, strict=True):
        policy.reset()
        np.testing.assert_allclose(run(policy, observations), outputs, atol=3e-6, rtol=0)


@pytest.mark.parametrize(("runtime", "spectra"), [("numba", numba_spectra), ("numpy", numpy_spectra)])
def test_the_spectra_are_those_of_the_published_network(runtime, spectra, golden) -> None:
    for sequence, observations in enumerate(golden.observation):
        policy = load_policy(golden.model, runtime)
        for step, observation in enumerate(observations, start=1):
            policy.step(observation)
            if step in golden.spectra:
                published = golden.spectra[step][:, sequence]  # float32, with the errors of 200 float32 steps
                np.testing.assert_allclose(spectra(policy), published, atol=1e-5 * np.abs(published).max(), rtol=0)


@every_runtime
def test_runtimes_agree_on_normalised_and_clipped_input(make, walker) -> None:
    observations = 4 * noise(walker, 150)
    reference = run(load_policy(walker, "numpy"), observations)
    np.testing.assert_allclose(run(make(walker), observations), reference, atol=2e-6, rtol=0)
