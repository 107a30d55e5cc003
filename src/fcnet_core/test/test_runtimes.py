"""Every runtime is the published network, and they all remember and forget alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import NonFiniteObservation
from fcnet_core.policies.fcnet.batched import BatchedPolicy
from fcnet_core.policies.fcnet.numba_step import NumbaPolicy
from fcnet_core.policies.fcnet.numpy_step import NumpyPolicy
from fcnet_core.policies.fcnet.onnx import OnnxPolicy
from fcnet_core.policy import Policy


class OneOfThree:
    """The middle robot of a batch as a Policy; its neighbours see something else."""

    def __init__(self, model: PolicyModel) -> None:
        self.batch = BatchedPolicy(model, 3)

    def reset(self) -> None:
        self.batch.reset()

    def step(self, observation):
        return self.batch.step(np.stack([observation * np.float32(0.5), observation, -observation]))[1]


RUNTIMES: dict[str, Callable[[PolicyModel], Policy]] = {
    "numba sdft": lambda model: NumbaPolicy(model, "sdft"),
    "numba fir": lambda model: NumbaPolicy(model, "fir"),
    "numpy sdft": lambda model: NumpyPolicy(model, "sdft"),
    "numpy fir": lambda model: NumpyPolicy(model, "fir"),
    "onnx": OnnxPolicy,
    "batched": OneOfThree,
}
every_runtime = pytest.mark.parametrize("make", RUNTIMES.values(), ids=RUNTIMES)


def run(policy: Policy, observations: np.ndarray) -> np.ndarray:
    return np.stack([policy.step(observation) for observation in observations])


def spectra(policy: NumbaPolicy | NumpyPolicy) -> np.ndarray:
    """Spectral states (L, m, d), complex."""
    if isinstance(policy, NumpyPolicy):
        return policy.memory.state
    return policy.memory.spectrum[:, 0] + 1j * policy.memory.spectrum[:, 1]


def noise(model: PolicyModel, steps: int, seed: int = 0) -> np.ndarray:
    shape = (steps, model.card.shape.observation)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@every_runtime
def test_the_outputs_are_those_of_the_published_network_far_beyond_its_window(make, golden) -> None:
    policy = make(golden.model)
    for observations, outputs in zip(golden.observation, golden.output, strict=True):
        policy.reset()
        np.testing.assert_allclose(run(policy, observations), outputs, atol=3e-6, rtol=0)


@pytest.mark.parametrize("make", [NumbaPolicy, NumpyPolicy])
def test_the_spectra_are_those_of_the_published_network(make, golden) -> None:
    for sequence, observations in enumerate(golden.observation):
        policy = make(golden.model)
        for step, observation in enumerate(observations, start=1):
            policy.step(observation)
            if step in golden.spectra:
                published = golden.spectra[step][:, sequence]  # float32, with the errors of 200 float32 steps
                np.testing.assert_allclose(spectra(policy), published, atol=1e-5 * np.abs(published).max(), rtol=0)


@every_runtime
def test_runtimes_agree_on_normalised_and_clipped_input(make, walker) -> None:
    observations = 4 * noise(walker, 150)
    reference = run(NumpyPolicy(walker), observations)
    np.testing.assert_allclose(run(make(walker), observations), reference, atol=2e-6, rtol=0)


@every_runtime
def test_what_is_older_than_all_layers_windows_leaves_no_trace(make, small) -> None:
    shape = small.model.card.shape
    recent = noise(small.model, shape.layers * (shape.window - 1) + 1)
    cold, warm = make(small.model), make(small.model)
    run(warm, noise(small.model, 57, seed=1))
    before = np.abs(cold.step(recent[0]) - warm.step(recent[0])).max()
    after = np.abs(run(cold, recent[1:]) - run(warm, recent[1:]))[-1].max()
    assert before > 1e-2
    assert after < 2e-6


@every_runtime
def test_reset_is_a_cold_start(make, small) -> None:
    observations = noise(small.model, 50)
    policy = make(small.model)
    first = run(policy, observations)
    policy.reset()
    np.testing.assert_allclose(run(policy, observations), first, atol=1e-6, rtol=0)


@every_runtime
def test_reset_every_n_forgets_after_each_window(make, small) -> None:
    window = small.model.card.shape.window
    observations = noise(small.model, 3 * window + 5)
    policy = make(small.with_card(window_policy="reset_every_n"))
    parts = np.split(observations, range(window, 3 * window + 1, window))
    expected = [run(NumpyPolicy(small.model), part) for part in parts]
    np.testing.assert_allclose(run(policy, observations), np.concatenate(expected), atol=2e-6, rtol=0)


@every_runtime
@pytest.mark.parametrize("window_policy", ["sliding", "reset_every_n"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_a_bad_observation_is_refused_and_leaves_no_trace(make, small, window_policy, bad) -> None:
    model = small.with_card(window_policy=window_policy)
    window = model.card.shape.window
    observations = noise(model, window + 3)
    expected = run(make(model), observations)
    policy = make(model)
    poisoned = observations.astype(np.float64)
    poisoned[:, 4] = bad
    for step, observation in enumerate(observations):
        with pytest.raises(NonFiniteObservation, match="4"):
            policy.step(poisoned[step])
        np.testing.assert_array_equal(policy.step(observation), expected[step])


@every_runtime
def test_an_observation_of_another_size_is_refused(make, small) -> None:
    with pytest.raises(ValueError, match="shape"):
        make(small.model).step(np.zeros(12, dtype=np.float32))


@every_runtime
def test_an_action_belongs_to_the_caller(make, small) -> None:
    policy = make(small.model)
    first, second = noise(small.model, 2)
    action = policy.step(first)
    copy = action.copy()
    policy.step(second)
    np.testing.assert_array_equal(action, copy)


@every_runtime
def test_the_largest_finite_observation_gives_a_finite_action(make, walker) -> None:
    policy = make(walker)
    huge = np.full(70, np.finfo(np.float32).max)
    assert np.isfinite(policy.step(huge)).all()
    assert np.isfinite(policy.step(-huge)).all()
