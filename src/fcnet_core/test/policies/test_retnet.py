"""The retentive network is the published one; its parallel, chunked and recurrent forms are one, for days."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from golden import read_arrays, sampled
from policy_forms import model_of, noise

from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies import policy_type
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.retnet import RetNetConfig
from fcnet_core.policies.retnet.network import RetNet
from fcnet_core.policies.retnet.numba_step import gate
from fcnet_core.policies.retnet.retention import ChunkedState, RecurrentState, angles, decays, query_scale, rotate
from fcnet_core.policies.retnet.step import silu
from fcnet_core.policy import LoadedPolicy, load_policy

GOLDEN = Path(__file__).parents[1] / "data" / "retnet_a.xz"
PUBLISHED = 2e-5  # by which the published forms differ among themselves: each scales in a way of its own
SINGLE = 3e-5  # in float32, actions of 1.5 rms of these weights are up to 1e-5 off, by torch as by every runtime
every_runtime = pytest.mark.parametrize("runtime", policy_type("retnet").runtimes)


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    """Published weights (float32), inputs and outputs (float64)."""
    return read_arrays(GOLDEN)


@pytest.fixture(scope="module")
def config(golden: dict[str, np.ndarray]) -> RetNetConfig:
    observation, action, hidden, value_width, heads, ffn_width, layers, *_ = golden["cfg"].tolist()
    return RetNetConfig(
        observation=observation,
        action=action,
        layers=layers,
        hidden=hidden,
        value_width=value_width,
        heads=heads,
        ffn_width=ffn_width,
    )


@pytest.fixture(scope="module")
def model(golden: dict[str, np.ndarray], config: RetNetConfig) -> PolicyModel:
    """The published weights without a normalisation."""
    weights = {name[2:]: array for name, array in golden.items() if name.startswith("w/")}
    return model_of(config, weights)


def network(model: PolicyModel, chunk: int) -> RetNet:
    """In float64."""
    module = RetNet(model.card.config, chunk).double()
    module.load_state_dict({name: torch.from_numpy(weight) for name, weight in model.weights.items()})
    return module


def outputs(module: RetNet, observations: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module(torch.from_numpy(observations)).numpy()


def run(policy: LoadedPolicy, observations: np.ndarray) -> np.ndarray:
    return np.stack([policy.step(observation) for observation in observations])


def test_the_default_sizes_have_as_many_parameters_as_the_fourier_controller_network() -> None:
    module = RetNet(RetNetConfig())
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == RetNetConfig().weight_shapes()
    assert sum(p.numel() for p in module.parameters()) == RetNetConfig().parameters == 781_836
    assert RetNetConfig().parameters == pytest.approx(FCNetConfig().parameters, rel=0.01)


def test_constants_are_the_published_ones(golden: dict[str, np.ndarray], config: RetNetConfig) -> None:
    heads, key_width, _ = config.state_shape
    np.testing.assert_allclose(np.log(decays(heads)), golden["const/log_decay"], rtol=1e-6)
    np.testing.assert_allclose(np.repeat(angles(key_width), 2), golden["const/angle"], rtol=1e-6)
    assert (decays(8) == decays(8).astype(np.float32)).all()


@pytest.mark.parametrize("chunk", [1, 5, 8, 24, 128])
def test_all_forms_are_the_published_recurrent_form(
    golden: dict[str, np.ndarray], model: PolicyModel, chunk: int
) -> None:
    """A chunk of one step is the recurrent form, one as long as the sequence the parallel form."""
    output = outputs(network(model, chunk), golden["par/obs"])
    np.testing.assert_allclose(output, golden["rec/out"], atol=1e-11, rtol=0)
    for form in ("par/out", "chunk/out"):
        np.testing.assert_allclose(output, golden[form], atol=PUBLISHED, rtol=0)


def test_long_sequences_are_the_same_in_all_forms(model: PolicyModel) -> None:
    observations = noise(model, 2, 700).astype(np.float64)
    parallel = outputs(network(model, 700), observations)
    for chunk in (1, 128, 333):
        np.testing.assert_allclose(outputs(network(model, chunk), observations), parallel, atol=1e-12, rtol=0)


def test_gradients_are_the_published_ones_and_the_same_in_all_forms(
    golden: dict[str, np.ndarray], model: PolicyModel
) -> None:
    gradients = []
    for chunk in (24, 5):
        module = network(model, chunk)
        loss = (module(torch.from_numpy(golden["par/obs"])) - torch.from_numpy(golden["par/target"])).square().mean()
        assert loss.item() == pytest.approx(golden["par/loss"].item(), abs=PUBLISHED)
        loss.backward()
        gradients.append({name: parameter.grad.numpy() for name, parameter in module.named_parameters()})
    for name, gradient in gradients[0].items():
        published = golden[f"grad/{name}"]
        np.testing.assert_allclose(gradient, gradients[1][name], atol=1e-12, rtol=0, err_msg=name)
        gradient = sampled(gradient, published)
        np.testing.assert_allclose(gradient, published, atol=1e-4 * np.abs(published).max(), rtol=0, err_msg=name)


def test_recurrent_and_chunked_retention_are_the_sum_that_defines_them() -> None:
    rng, heads, key_width, value_width, steps = np.random.default_rng(3), 3, 6, 5, 150
    (q, k), v = rng.standard_normal((2, steps, heads, key_width)), rng.standard_normal((steps, heads, value_width))
    decay, turned = decays(heads), np.outer(np.arange(steps), angles(key_width))
    q, k = (rotate(x, np.cos(turned), np.sin(turned)) for x in (q, k))
    scaled = q * query_scale(np.arange(steps, dtype=float), decay, key_width)[..., None]
    lag = np.subtract.outer(np.arange(steps), np.arange(steps))
    expected, number = np.empty_like(v), np.zeros(heads)
    for t in range(steps):
        number = decay * number + 1
        weight = decay ** lag[t, : t + 1, None] * np.einsum("hd,thd->th", q[t], k[: t + 1])
        expected[t] = np.einsum("th,thv->hv", weight, v[: t + 1]) / np.sqrt(key_width * number)[:, None]
    shape = (heads, key_width, value_width)
    recurrent, chunked = RecurrentState(1, 1, shape, np.float64), ChunkedState(1, 40, shape, np.float64)
    one = [recurrent.retain(0, *(x[t : t + 1] for x in (scaled, k, v)))[0] for t in range(steps)]
    other = [chunked.retain(0, *(x[t : t + 40] for x in (scaled, k, v))) for t in range(0, steps, 40)]
    np.testing.assert_allclose(one, expected, atol=1e-12, rtol=0)
    np.testing.assert_allclose(np.concatenate(other), expected, atol=1e-12, rtol=0)


@every_runtime
def test_runtimes_are_the_published_recurrent_form(
    golden: dict[str, np.ndarray], model: PolicyModel, runtime: str
) -> None:
    policy = load_policy(model, runtime)
    for observations, published in zip(golden["par/obs"], golden["rec/out"], strict=True):
        policy.reset()
        np.testing.assert_allclose(run(policy, observations), published, atol=SINGLE, rtol=0)


def test_the_states_are_the_published_ones(golden: dict[str, np.ndarray], model: PolicyModel) -> None:
    heads, key_width, value_width = model.card.config.state_shape
    for sequence, observations in enumerate(golden["par/obs"]):
        policy = load_policy(model, "numpy")
        run(policy, observations)
        state = policy.runtime.network.memory.state[:, 0] / np.sqrt(key_width)  # (L, H, d_k, d_v)
        pairs = state.reshape(-1, heads, 2, key_width // 2, value_width).swapaxes(2, 3)  # as published: neighbours
        published = golden["rec/kv_after_T"][:, sequence] * np.sqrt(golden["rec/scale_after_T"])[..., None, None]
        ours = pairs.reshape(-1, heads, key_width, value_width).swapaxes(2, 3)
        np.testing.assert_allclose(ours, published, atol=1e-6 * np.abs(published).max(), rtol=0)


def test_after_half_an_hour_the_state_is_that_of_the_last_minutes(model: PolicyModel) -> None:
    """0.996 ** 8000, the slowest of four heads, is 3e-14: older steps leave no trace in the exact state."""
    steps, recent = 100_000, 8_000
    observations = noise(model, steps)
    policy, fresh = load_policy(model, "numba"), load_policy(model, "numpy")
    for observation in observations[: steps - recent]:
        policy.step(observation)
    actual, expected = run(policy, observations[-recent:]), run(fresh, observations[-recent:])
    np.testing.assert_allclose(actual[-100:], expected[-100:], atol=SINGLE, rtol=0)
    assert np.abs(policy.runtime.memory.state).max() < 10 * np.abs(fresh.runtime.network.memory.state).max()


@every_runtime
def test_after_days_an_action_depends_on_differences_of_time_alone(model: PolicyModel, runtime: str) -> None:
    observations = noise(model, 8_000)
    late, fresh = load_policy(model, runtime), load_policy(model, runtime)
    begin_at(late, 10_000_000)
    actual, expected = run(late, observations), run(fresh, observations)
    np.testing.assert_allclose(actual[-100:], expected[-100:], atol=SINGLE, rtol=0)


def begin_at(policy: LoadedPolicy, step: int) -> None:
    """Go on as if so many steps had been made since the reset, all of them long forgotten."""
    runtime = policy.runtime
    if hasattr(runtime, "network"):
        runtime.network.memory._steps[:] = step
    elif hasattr(runtime, "_kept"):
        place = [memory.name for memory in runtime._memories].index("steps")
        runtime._kept[place] = [np.full((1, 1), step, dtype=np.float64)]
    else:
        runtime._count = step


def test_rotations_are_exact_after_ten_million_steps() -> None:
    """In hundreds of thousands of turns as in the first: what counts is the difference of two steps' angles."""
    now, before = (np.outer([1e7 + step], angles(32)) for step in (0, 37))
    difference = np.exp(1j * before) * np.exp(-1j * now)
    np.testing.assert_allclose(difference[0], np.exp(1j * 37 * angles(32)), atol=1e-8, rtol=0)


def test_the_compiled_silu_is_exact_to_rounding() -> None:
    x = np.linspace(-40, 40, 80_001, dtype=np.float32)
    y = np.ones_like(x)
    gate(y, x)
    exact = silu(x.astype(np.float64))
    assert (np.abs(y - exact) / np.maximum(1.0, np.abs(x))).max() < 3e-7
    np.testing.assert_allclose(exact, x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64))), atol=1e-12)


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"heads": 3}, "hidden is 128, with heads 3 it must be a multiple of 6"),
        ({"hidden": 36}, "hidden is 36, with heads 4 it must be a multiple of 8"),  # keys of 9 entries
        ({"value_width": 130}, "value_width is 130, with heads 4 it must be a multiple of 4"),
        ({"heads": 0}, "heads is 0"),
        ({"heads": 16}, "heads is 16"),
        ({"layers": 0}, "layers is 0"),
        ({"ffn_width": -1}, "ffn_width is -1"),
        ({"window": 2.5}, "window is 2.5"),
        ({"modes": 10}, "modes"),
    ],
)
def test_sizes_that_cannot_be_are_refused_in_a_sentence(sizes: dict[str, float], named: str) -> None:
    with pytest.raises(FcnetError, match=named) as caught:
        policy_type("retnet").config_from(sizes)
    assert "\n" not in str(caught.value)
