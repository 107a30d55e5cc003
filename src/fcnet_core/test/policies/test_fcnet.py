"""The Fourier Controller Network is the published one, as are its runtimes: same outputs and gradients, also far beyond
its window.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import check_gradients, named, read_arrays
from policy_forms import every_form, steps_of_network

from fcnet_core.policies import causal_filter
from fcnet_core.policies.export import exported_step
from fcnet_core.policies.fcnet import spectral
from fcnet_core.policies.network import PolicyNetwork, load_network
from fcnet_core.policy import load_policy

GOLDEN = Path(__file__).parents[1] / "data" / "small_a.xz"


@pytest.fixture(scope="module")
def vectors() -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in read_arrays(GOLDEN).items()}


@pytest.fixture(params=["direct", "spectral"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms of the filter."""
    monkeypatch.setattr(causal_filter, "DIRECT_WINDOW", 256 if request.param == "direct" else 0)


@pytest.fixture
def network(form: None, small) -> PolicyNetwork:
    """The published network's weights."""
    return load_network(small.model)


def random_filter(window: int, steps: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, steps, 5, generator=generator, dtype=torch.float64)
    return x, torch.randn(window, 5, generator=generator, dtype=torch.float64)


def test_outputs_and_gradients_match_the_published_network(network, vectors) -> None:
    output, _ = network(vectors["par/obs"])
    torch.testing.assert_close(output, vectors["par/out"], atol=2e-6, rtol=0)
    loss = (output - vectors["par/target"]).square().mean()
    torch.testing.assert_close(loss, vectors["par/loss"], atol=1e-6, rtol=0)
    loss.backward()
    check_gradients(network, named(read_arrays(GOLDEN), "grad/"))


def test_a_sequence_longer_than_the_window_slides_as_the_published_recurrent_form(network, vectors) -> None:
    assert vectors["rec/obs"].shape[1] > 5 * network.config.window
    torch.testing.assert_close(network(vectors["rec/obs"])[0], vectors["rec/out"], atol=3e-6, rtol=0)


@pytest.mark.parametrize(("window", "steps"), [(1, 1), (4, 4), (6, 37), (7, 8), (19, 40)])
def test_both_filters_are_a_causal_convolution(form: None, window: int, steps: int) -> None:
    x, h = random_filter(window, steps)
    expected = torch.zeros_like(x)
    for delay in range(window):
        expected[:, delay:] += h[delay] * x[:, : steps - delay]
    torch.testing.assert_close(causal_filter.causal_filter(x, h), expected)


@pytest.mark.parametrize(("window", "steps"), [(1, 1), (4, 4), (5, 12), (9, 14)])
def test_gradients_of_both_filters_are_right(form: None, window: int, steps: int) -> None:
    x, h = random_filter(window, steps)
    assert torch.autograd.gradcheck(causal_filter.causal_filter, (x.requires_grad_(), h.requires_grad_()))


@pytest.mark.parametrize(("window", "modes"), [(64, 10), (20, 5), (7, 4), (8, 4), (1, 1), (2, 1)])
def test_filter_sliding_dft_and_the_papers_definition_agree(window, modes) -> None:
    rng = np.random.default_rng(window)
    weights, x = rng.standard_normal((modes, modes, 3, 2)), rng.standard_normal((3 * window + 2, 3))
    padded = np.concatenate([np.zeros((window, 3)), x])
    rotation = np.exp(2j * np.pi * np.arange(modes) / window)[:, None]
    folded = spectral.folded_weights(weights, window)
    spectrum, h = np.zeros((modes, 3), dtype=complex), spectral.kernel(folded, window)
    for step in range(len(x)):
        past = padded[step + 1 : step + 1 + window]
        spectrum = rotation * (spectrum + x[step] - padded[step])
        np.testing.assert_allclose(spectrum, np.fft.fft(past, axis=0)[:modes], atol=1e-10)
        mixed = np.einsum("kd,kld->ld", spectrum, weights[..., 0] + 1j * weights[..., 1])
        expected = (spectral.inverse_dft_last(window, modes) @ mixed).real
        np.testing.assert_allclose(np.einsum("kd,kd->d", folded, spectrum).real, expected, atol=1e-10)
        np.testing.assert_allclose(np.einsum("td,td->d", h, past[::-1]), expected, atol=1e-10)


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
