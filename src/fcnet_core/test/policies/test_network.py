"""The network is the published one: same outputs, gradients and size, and it slides beyond its window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from golden import read_arrays

from fcnet_core.policies import causal_filter
from fcnet_core.policies.causal_filter import DirectFilter, SpectralFilter, fast_transform_length
from fcnet_core.policies.fcnet import FCNetConfig, spectral
from fcnet_core.policies.fcnet.network import FourierControllerNetwork

GOLDEN = Path(__file__).parents[1] / "data" / "small_a.xz"
SIZES = ("observation", "action", "layers", "modes", "hidden", "decoder_hidden", "window")


@pytest.fixture(scope="module")
def golden() -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in read_arrays(GOLDEN).items()}


@pytest.fixture(params=["direct", "spectral"])
def network(
    request: pytest.FixtureRequest, golden: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> FourierControllerNetwork:
    """The published network's weights, with either form of the filter."""
    monkeypatch.setattr(causal_filter, "DIRECT_WINDOW", 256 if request.param == "direct" else 0)
    network = FourierControllerNetwork(FCNetConfig(**dict(zip(SIZES, golden["cfg"].tolist(), strict=False))))
    network.load_state_dict({name[2:]: array for name, array in golden.items() if name.startswith("w/")})
    return network


def random_filter(window: int, steps: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, steps, 5, generator=generator, dtype=torch.float64)
    return x, torch.randn(window, 5, generator=generator, dtype=torch.float64)


def test_the_legged_configuration_has_the_papers_number_of_parameters() -> None:
    network = FourierControllerNetwork(FCNetConfig())
    assert sum(parameter.numel() for parameter in network.parameters()) == 787_852
    shapes = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    assert shapes == FCNetConfig().weight_shapes()


def test_outputs_match_the_published_network(
    network: FourierControllerNetwork, golden: dict[str, torch.Tensor]
) -> None:
    torch.testing.assert_close(network(golden["par/obs"])[0], golden["par/out"], atol=2e-6, rtol=0)


def test_gradients_match_the_published_network(
    network: FourierControllerNetwork, golden: dict[str, torch.Tensor]
) -> None:
    loss = (network(golden["par/obs"])[0] - golden["par/target"]).square().mean()
    torch.testing.assert_close(loss, golden["par/loss"], atol=1e-6, rtol=0)
    loss.backward()
    for name, parameter in network.named_parameters():
        expected = golden[f"grad/{name}"]
        assert parameter.grad is not None
        tolerance = 2e-5 * expected.abs().max().item()
        torch.testing.assert_close(parameter.grad, expected, atol=tolerance, rtol=0, msg=name)


def test_a_sequence_longer_than_the_window_slides_as_the_published_recurrent_form(
    network: FourierControllerNetwork, golden: dict[str, torch.Tensor]
) -> None:
    assert golden["rec/obs"].shape[1] > 5 * network.config.window
    torch.testing.assert_close(network(golden["rec/obs"])[0], golden["rec/out"], atol=3e-6, rtol=0)


def test_the_kernel_is_that_of_the_mathematics() -> None:
    torch.manual_seed(1)
    layer = FourierControllerNetwork(FCNetConfig(layers=1)).double().fourier_layers[0]
    expected = spectral.kernel(spectral.folded_weights(layer.csc.weights.detach().numpy(), 64), 64)
    np.testing.assert_allclose(layer.csc.kernel().detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("form", [DirectFilter, SpectralFilter])
@pytest.mark.parametrize(("window", "steps"), [(1, 1), (4, 4), (6, 37), (7, 8), (19, 40)])
def test_both_filters_are_a_causal_convolution(form: type[torch.autograd.Function], window: int, steps: int) -> None:
    x, h = random_filter(window, steps)
    expected = torch.zeros_like(x)
    for delay in range(window):
        expected[:, delay:] += h[delay] * x[:, : steps - delay]
    torch.testing.assert_close(form.apply(x, h), expected)


@pytest.mark.parametrize("form", [DirectFilter, SpectralFilter])
@pytest.mark.parametrize(("window", "steps"), [(1, 1), (4, 4), (5, 12), (9, 14)])
def test_both_filters_own_gradients_are_right(form: type[torch.autograd.Function], window: int, steps: int) -> None:
    x, h = random_filter(window, steps)
    assert torch.autograd.gradcheck(form.apply, (x.requires_grad_(), h.requires_grad_()))


@pytest.mark.parametrize(("least", "length"), [(1, 2), (191, 192), (193, 200), (127, 128), (257, 270), (1087, 1152)])
def test_transform_lengths_are_even_and_smooth(least: int, length: int) -> None:
    assert fast_transform_length(least) <= length
    assert fast_transform_length(least) >= least
