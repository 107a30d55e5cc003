"""The StARformer is the published one; with its tokens computed once a step it is its window recomputed."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import check_gradients, named, read_arrays
from msgspec import structs
from policy_forms import check_refused, every_form, loaded, model_of, noise, parallel, steps_of_network, untrained

from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import EXAMPLE, EXAMPLE_LEGS, example_config
from fcnet_core.model_file import PolicyModel, check_robot, load_model, save_model
from fcnet_core.policies.body_transformer.graph import body_graph
from fcnet_core.policies.network import load_network
from fcnet_core.policies.starformer import Group, StarformerConfig
from fcnet_core.policies.starformer.image import ImageSizes, ImageStarformer
from fcnet_core.policies.starformer.network import Starformer
from fcnet_core.robot import load_robot

DATA = Path(__file__).parents[1] / "data"
SINGLE = 3e-6  # of outputs
CONNECTIONS = ("layer_wise", "fusion", "pooled_only", "stack")
ALL = (Group("all", tuple(range(70))),)
LAST_ACTION, REWARD = tuple(range(70, 82)), 82  # behind the published state of 70 numbers


def connection_of(path: Path) -> str:
    kinds = {"fusion": "fusion", "xconv": "pooled_only", "stack": "stack"}
    return next((ours for published, ours in kinds.items() if published in path.stem), "layer_wise")


def published_model(path: Path) -> tuple[dict[str, np.ndarray], PolicyModel]:
    arrays = read_arrays(path)
    names = ("state", "action", "window", "hidden", "token_width", "heads", "token_heads", "layers", "reward")
    sizes = dict(zip(names, arrays["cfg"].tolist(), strict=True))
    state, entries = sizes.pop("state"), {"last_action": LAST_ACTION, "reward": REWARD if sizes["reward"] else None}
    sizes |= {"observation": state + sizes["action"] + 1, "time_table": sizes["window"], **entries}
    groups = (Group("state", tuple(range(state))),)
    config = StarformerConfig(**sizes, groups=groups, tokens="scalars", connection=connection_of(path))
    arrays["observation"] = np.concatenate([arrays[name] for name in ("states", "actions", "rewards")], axis=-1)
    return arrays, model_of(config, named(arrays, "w/"))


def features(network: torch.nn.Module) -> list[np.ndarray]:
    """What the layers of the sequence transformer give, once the network has run."""
    found: list[np.ndarray] = []
    for layer in network.encoder.sequence_layers:
        layer.register_forward_hook(lambda _layer, _inputs, output: found.append(output.detach().numpy()))
    return found


every_vector = pytest.mark.parametrize("path", sorted(DATA.glob("star*_vec_*.xz")), ids=lambda path: path.stem)


@every_vector
def test_outputs_features_and_gradients_match_the_published_network(path) -> None:
    arrays, model = published_model(path)
    network, seen = load_network(model), torch.from_numpy(arrays["observation"])
    layers = features(network)
    output = torch.tanh(network(seen)[0])
    np.testing.assert_allclose(output.detach(), arrays["action_pred"], atol=SINGLE, rtol=0)
    np.testing.assert_allclose(layers, arrays["h_layers"], atol=5e-6, rtol=0)
    loss = (output - torch.from_numpy(arrays["target"])).square().mean()
    assert loss.item() == pytest.approx(float(arrays["loss"]), abs=SINGLE)
    loss.backward()
    check_gradients(network, named(arrays, "grad/"))
    tokens, expected = network.tokenizer(seen).detach().numpy(), arrays["step_tokens_0"]
    np.testing.assert_allclose(tokens[: len(expected), : expected.shape[1]], expected, atol=SINGLE, rtol=0)


@every_form("starformer")
@every_vector
def test_every_form_steps_the_published_network(path, form) -> None:
    arrays, model = published_model(path)
    for seen, expected in zip(arrays["observation"], arrays["action_pred"], strict=True):
        np.testing.assert_allclose(np.tanh(form(model, seen)), expected, atol=SINGLE, rtol=0)


@pytest.mark.parametrize(("window", "reward", "parameters"), [(10, None, 1_064_819), (30, 70, 1_073_555)])
def test_with_scalars_as_tokens_it_has_the_published_number_of_parameters(window, reward, parameters) -> None:
    sizes = {"observation": 71, "reward": reward, "window": window, "time_table": window}
    config = example_config(StarformerConfig, groups=ALL, tokens="scalars", **sizes)
    unused = 70 * 129 + 129  # heads for states and rewards, which no loss uses
    assert config.parameters + unused == parameters
    assert sum(parameter.numel() for parameter in Starformer(config).parameters()) == config.parameters


def random_model(**sizes: object) -> PolicyModel:
    """Small, with attention and time that matter, without an exported step."""
    small = {"layers": 3, "hidden": 15, "heads": 3, "token_width": 6, "token_heads": 2, "window": 5, "time_table": 40}
    model = untrained(example_config(StarformerConfig, **small | sizes), export=False)
    rng = np.random.default_rng(5)
    for name, weight in model.weights.items():
        if name == "encoder.time" or weight.ndim == 1:
            weight += rng.normal(0, 0.1 if weight.ndim == 1 else 1, weight.shape).astype(np.float32)
        else:
            weight *= 5
    return model


KINDS = [{"connection": kind, "window": window, "reward": 3} for kind in CONNECTIONS for window in (1, 5, 17, 40)]
KINDS += [{"tokens": "scalars"}, {"reward": 0, "tokens": "scalars"}, {"token_heads": 1}]


@pytest.mark.parametrize("sizes", KINDS, ids=str)
def test_kept_tokens_of_every_kind_are_the_whole_window_recomputed(sizes) -> None:
    model = random_model(**sizes)
    window = model.card.config.window
    network, seen = load_network(model).double(), noise(model, 100)
    with torch.no_grad():
        windows = [torch.from_numpy(seen[max(0, end - window) : end])[None].double() for end in range(1, 101)]
        expected = [network(one)[0][0, -1].numpy() for one in windows]
    for form in (steps_of_network, parallel):
        np.testing.assert_allclose(form(model, seen), expected, atol=1e-10, rtol=0)


def test_a_model_runs_with_a_shorter_window_of_its_time_table() -> None:
    model = random_model(window=20)
    shorter = replace(model, card=structs.replace(model.card, config=structs.replace(model.card.config, window=4)))
    seen = noise(model, 50)
    for form in (steps_of_network, parallel):
        np.testing.assert_allclose(form(shorter, seen)[:4], parallel(model, seen)[:4], atol=1e-10, rtol=0)


def test_a_step_has_a_token_for_the_last_action_and_for_every_node_of_the_body() -> None:
    config = example_config(StarformerConfig)
    assert [group.name for group in config.groups] == [node.name for node in body_graph(EXAMPLE, EXAMPLE_LEGS).nodes]
    assert config.groups[4] == Group("FL_hip", (6, 18, 30))
    assert config.step_tokens == 14 and structs.replace(config, reward=0).step_tokens == 15
    assert sorted((*config.state_entries.tolist(), *config.last_action)) == list(range(70))
    assert structs.replace(config, tokens="scalars").step_tokens == 1 + 58


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"window": 1025, "time_table": 1025}, "window has 1025 steps, .* 1024"),
        ({"window": 31}, r"the window .31. is longer than the time table .30 steps.; choose a window of at most 30"),
        ({"groups": [{"name": "trunk", "observation": [69, 70]}]}, "group trunk has the unknown entry 70"),
        ({"groups": [{"name": "trunk", "observation": []}]}, "groups.0.*observation is"),
        ({"groups": 2 * [{"name": "a", "observation": [1]}]}, "groups has entry 1 .* 2 times"),
        ({"last_action": [3, 4, 3]}, "last_action has entry 3 of the observation 2 times"),
        ({"groups": []}, "groups is"),
        ({"last_action": [99]}, "last_action has the unknown entry 99"),
        ({"reward": 70}, "reward has the unknown entry 70 of the observation; choose 0 to 69"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_a_sentence(settings, named) -> None:
    check_refused("starformer", settings, named)


@pytest.mark.parametrize(
    ("settings", "fits"),
    [
        ({}, True),
        ({"groups": ALL, "tokens": "scalars"}, True),
        ({"groups": ALL}, False),
        ({"last_action": tuple(range(12))}, False),
        ({"last_action": tuple(range(12)), "tokens": "scalars"}, False),
    ],
)
def test_a_model_stands_alone_and_its_groups_must_fit_the_robots_observation(settings, fits, tmp_path) -> None:
    save_model(untrained(example_config(StarformerConfig, **settings), export=False), tmp_path / "policy.safetensors")
    model = load_model(tmp_path / "policy.safetensors")
    assert model.card.config == example_config(StarformerConfig, **settings)
    with nullcontext() if fits else pytest.raises(FcnetError, match="aliengo"):
        check_robot(model, load_robot("aliengo"))


@pytest.mark.parametrize("path", sorted(DATA.glob("star*_img_*.xz")), ids=lambda path: path.stem)
def test_the_image_form_matches_the_published_network(path) -> None:
    arrays = read_arrays(path)
    names = ("frames", "height", "width", "patch", "time_table", "action", "hidden", "token_width", "heads")
    sizes = dict(zip((*names, "token_heads", "layers", "reward"), arrays["cfg"].tolist(), strict=True))
    del sizes["height"], sizes["width"]
    sizes |= {"discrete": True, "reward": bool(sizes["reward"]), "connection": connection_of(path)}
    network = loaded(ImageStarformer(ImageSizes(**sizes)), named(arrays, "w/"))
    found = features(network)
    image = torch.from_numpy(arrays["frames_u8"]).float() / 255
    given = image, torch.from_numpy(arrays["actions"])[..., 0], torch.from_numpy(arrays["rewards"])
    logits = network(*given)
    np.testing.assert_allclose(logits.detach(), arrays["logits"], atol=SINGLE, rtol=0)
    np.testing.assert_allclose(found, arrays["h_layers"], atol=5e-6, rtol=0)
    np.testing.assert_allclose(network.tokens(*given)[0, :1].detach(), arrays["step_tokens_0_t0"], atol=SINGLE, rtol=0)
    loss = torch.nn.functional.cross_entropy(logits[0], torch.from_numpy(arrays["targets"])[0, :, 0])
    assert loss.item() == pytest.approx(float(arrays["loss"]), abs=SINGLE)
    loss.backward()
    check_gradients(network, named(arrays, "grad/"))


@pytest.mark.parametrize(
    ("sizes", "parameters"),
    [({}, 14_373_220), ({"patch": 14, "reward": True}, 6_515_172), ({"connection": "pooled_only"}, 13_692_932)],
)
def test_the_image_form_has_the_published_number_of_parameters(sizes, parameters) -> None:
    network = ImageStarformer(ImageSizes(action=4, discrete=True, **sizes))
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters


def test_the_image_form_gives_continuous_actions_of_what_was_seen_before() -> None:
    torch.manual_seed(0)
    sizes = ImageSizes(action=2, discrete=False, patch=14, layers=1, hidden=16, heads=2, time_table=3)
    network = ImageStarformer(sizes)
    image, action = torch.rand(1, 3, 4, 84, 84), torch.rand(1, 3, 2)
    with torch.no_grad():
        torch.nn.init.normal_(network.head.weight, std=0.3)
        torch.nn.init.constant_(network.head.bias, 2)  # beyond 1, but for the tanh
        output = network(image, action)
        changed = network(torch.cat([image[:, :2], image[:, :1]], dim=1), action)
    assert output.shape == (1, 3, 2) and 0.8 < output.max() < 1
    np.testing.assert_allclose(output[:, :2], changed[:, :2], atol=SINGLE, rtol=0)
    assert (output[:, 2] - changed[:, 2]).abs().max() > 1e-4
    with pytest.raises(ValueError, match="the sequence has 4 steps, the network's time table 3; give at most"):
        network(torch.zeros(1, 4, 4, 84, 84), torch.zeros(1, 4, 2))


@pytest.mark.parametrize(("sizes", "named"), [({"patch": 5}, "patches of 5"), ({"heads": 5}, "among 5 heads")])
def test_sizes_of_the_image_form_that_cannot_be_are_refused(sizes, named) -> None:
    with pytest.raises(ValueError, match=named):
        ImageSizes(action=2, discrete=False, **sizes)
