"""The Transformer is the published one, and stepping it is what was trained, under either memory rule."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import check_gradients, named, read_arrays
from msgspec import structs
from policy_forms import FORMS, every_form, loaded, model_of, noise, parallel, steps_of_network, untrained

from fcnet_core.learning import config as training
from fcnet_core.learning.config import example_config, load_train_config
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.network import load_network
from fcnet_core.policies.transformer import TransformerConfig
from fcnet_core.policies.transformer.decision_transformer import DecisionTransformer
from fcnet_core.policies.transformer.network import CausalTransformer

DATA = Path(__file__).parents[1] / "data"
PRESETS = Path(training.__file__).parents[1] / "config" / "train"
TOLERANCE = 2e-6


def random_model(window: int = 5) -> PolicyModel:
    """Small, of sizes that no vector register likes, with attention that matters; without an exported step."""
    config = TransformerConfig(observation=7, action=3, hidden=15, layers=3, heads=3, window=window)
    model = untrained(config, export=False)
    for name, weight in model.weights.items():
        if name.endswith(("qkv.weight", "project.weight")):
            weight *= 12
    return model


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    """Reference vectors of the one-token form: float64 outputs of float32 weights."""
    return read_arrays(DATA / "transformer_a.xz")


@pytest.fixture(scope="module")
def published(arrays) -> PolicyModel:
    names = ("observation", "action", "hidden", "layers", "heads", "window")
    config = TransformerConfig(**dict(zip(names, arrays["cfg"].tolist(), strict=True)))
    return model_of(config, named(arrays, "w/"))


def test_the_preset_has_the_published_number_of_parameters() -> None:
    config = load_train_config(PRESETS / "transformer.yaml").policy_config
    assert config == example_config(TransformerConfig)
    assert config.parameters == 804_236
    assert sum(parameter.numel() for parameter in CausalTransformer(config).parameters()) == 804_236


def test_outputs_and_gradients_match_the_published_network(arrays, published) -> None:
    network = load_network(published)
    output, _ = network(torch.from_numpy(arrays["par/obs"]).float())
    np.testing.assert_allclose(output.detach(), arrays["par/out"], atol=TOLERANCE, rtol=0)
    (output - torch.from_numpy(arrays["par/target"])).square().mean().backward()
    check_gradients(network, named(arrays, "grad/"))


@every_form("transformer")
def test_with_its_memory_emptied_every_n_steps_it_is_the_published_evaluation(form, arrays, published) -> None:
    resetting = replace(published, card=structs.replace(published.card, window_policy="reset_every_n"))
    for one, expected in zip(arrays["rec/obs"].astype(np.float32), arrays["rec/out_reset_every_n"], strict=True):
        np.testing.assert_allclose(form(resetting, one), expected, atol=TOLERANCE, rtol=0)


@every_form("transformer")
def test_sliding_it_is_its_window_recomputed_in_the_first_n_steps_alone(form, arrays, published) -> None:
    n = published.card.config.window
    for one, recomputed in zip(arrays["rec/obs"].astype(np.float32), arrays["rec/out_window_recomputed"], strict=True):
        actions = form(published, one)
        np.testing.assert_allclose(actions[:n], recomputed[:n], atol=TOLERANCE, rtol=0)
        assert np.abs(actions[n:] - recomputed[n:]).max() > 1e-3


every_small_form = pytest.mark.parametrize("form", [steps_of_network, FORMS["numba"], FORMS["batch"]])


@every_small_form
@pytest.mark.parametrize("window", [1, 2, 5, 64])
def test_steps_with_the_ring_are_the_trained_band_over_hundreds_of_steps(form, window) -> None:
    model = random_model(window=window)
    seen = noise(model, 300)
    np.testing.assert_allclose(form(model, seen), parallel(model, seen), atol=TOLERANCE, rtol=0)


@every_small_form
def test_an_action_depends_on_as_many_past_steps_as_the_card_says_and_no_more(form) -> None:
    model = random_model()
    memory, seen = int(model.card.memory), noise(model, 40)
    changed = seen.copy()
    changed[10] += 3.0
    difference = np.abs(form(model, seen) - form(model, changed)).max(axis=1)
    assert difference[:10].max() == 0.0
    assert difference[10 + memory] > 1e-6
    np.testing.assert_allclose(difference[10 + memory + 1 :], 0.0, atol=1e-6)
    assert memory == 3 * 4


def test_the_decision_transformer_with_three_tokens_a_step_is_the_published_one() -> None:
    arrays = read_arrays(DATA / "decision_transformer_a.xz")
    state, action, d, layers, heads, _, longest = arrays["cfg"].tolist()
    network = loaded(DecisionTransformer(state, action, d, layers, heads, longest), named(arrays, "w/")).double()
    given = {name: torch.from_numpy(arrays[f"in/{name}"]) for name in ("rtg", "state", "action", "timestep", "mask")}
    visible = given["mask"].bool()
    output = network(given["rtg"], given["state"], given["action"], given["timestep"], visible)
    np.testing.assert_allclose(output.detach()[visible], arrays["out/action"][visible], atol=1e-12, rtol=0)
    loss = (output - torch.from_numpy(arrays["in/target"]))[visible].square().mean()
    assert loss.item() == pytest.approx(float(arrays["out/loss"]), abs=1e-12)
    loss.backward()
    check_gradients(network, named(arrays, "grad/"), share=2e-6)
