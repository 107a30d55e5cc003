"""The retentive network is the published one; its parallel, chunked and recurrent forms are one, for days."""

from pathlib import Path

import numpy as np
import pytest
import torch
from golden import check_gradients, named, read_arrays
from policy_forms import model_of, noise

from fcnet_core.learning.config import example_config
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.retnet import RetNetConfig
from fcnet_core.policies.retnet.network import RetNet
from fcnet_core.policy import load_policy

GOLDEN = Path(__file__).parents[1] / "data" / "retnet_a.xz"
PUBLISHED = 2e-5  # by which the published forms differ among themselves: each scales in a way of its own
SINGLE = 3e-5  # in float32, actions of 1.5 rms of these weights are up to 1e-5 off, by torch as by every runtime


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    """Published weights (float32), inputs and outputs (float64)."""
    return read_arrays(GOLDEN)


@pytest.fixture(scope="module")
def model(golden: dict[str, np.ndarray]) -> PolicyModel:
    """The published weights without a normalisation."""
    names = ("observation", "action", "hidden", "value_width", "heads", "ffn_width", "layers")
    config = RetNetConfig(**dict(zip(names, golden["cfg"].tolist(), strict=False)))
    return model_of(config, named(golden, "w/"))


def network(model: PolicyModel, chunk: int) -> RetNet:
    """In float64."""
    module = RetNet(model.card.config, chunk).double()
    module.load_state_dict({name: torch.from_numpy(weight) for name, weight in model.weights.items()})
    return module


def outputs(module: RetNet, observations: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module(torch.from_numpy(observations))[0].numpy()


def test_the_default_sizes_have_as_many_parameters_as_the_fourier_controller_network() -> None:
    config = example_config(RetNetConfig)
    shapes = {name: tuple(weight.shape) for name, weight in RetNet(config).named_parameters()}
    assert shapes == config.weight_shapes() and config.parameters == 781_836
    assert config.parameters == pytest.approx(example_config(FCNetConfig).parameters, rel=0.01)


@pytest.mark.parametrize("chunk", [1, 5, 8, 24, 128])
def test_all_forms_are_the_published_recurrent_form(golden, model, chunk) -> None:
    """A chunk of one step is the recurrent form, one as long as the sequence the parallel form."""
    output = outputs(network(model, chunk), golden["par/obs"])
    np.testing.assert_allclose(output, golden["rec/out"], atol=1e-11, rtol=0)
    for form in ("par/out", "chunk/out"):
        np.testing.assert_allclose(output, golden[form], atol=PUBLISHED, rtol=0)


def test_gradients_are_the_published_ones_and_the_same_in_all_forms(golden, model) -> None:
    whole, chunked = (network(model, chunk) for chunk in (24, 5))
    for module in (whole, chunked):
        loss = (module(torch.from_numpy(golden["par/obs"]))[0] - torch.from_numpy(golden["par/target"])).square().mean()
        assert loss.item() == pytest.approx(golden["par/loss"].item(), abs=PUBLISHED)
        loss.backward()
        check_gradients(module, named(golden, "grad/"), share=1e-4)
    check_gradients(whole, {name: parameter.grad.numpy() for name, parameter in chunked.named_parameters()}, 1e-12)


def test_after_days_an_action_depends_on_differences_of_time_alone(model: PolicyModel) -> None:
    observations = noise(model, 3_000)
    late, fresh = load_policy(model), load_policy(model)
    late.state = late.state | {"steps": np.array([10_000_000])}
    for step, row in enumerate(observations):
        actual, expected = late.step(row), fresh.step(row)
        if step >= 2_900:
            np.testing.assert_allclose(actual, expected, atol=SINGLE, rtol=0)
