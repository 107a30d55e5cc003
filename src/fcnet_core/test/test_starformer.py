"""The StARformer is the published one; with its tokens computed once a step it is its window recomputed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from msgspec import structs
from policy_forms import every_form, loaded, model_of, network_of, noise, parallel, read_arrays, untrained

from fcnet_core import FcnetError
from fcnet_core.learning import config as training
from fcnet_core.learning.config import load_train_config
from fcnet_core.model_file import PolicyModel, check_robot, load_model, save_model
from fcnet_core.policies.body_transformer.graph import Node
from fcnet_core.policies.starformer import StarformerConfig
from fcnet_core.policies.starformer.image import ImageSizes, ImageStarformer
from fcnet_core.policies.starformer.network import Starformer
from fcnet_core.robot import load_robot

DATA = Path(__file__).parent / "data"
PRESETS = Path(training.__file__).parents[1] / "config" / "train"
SINGLE = 3e-6  # of outputs
GRADIENT = 2e-5  # of a tensor's largest entry
CONNECTIONS = ("layer_wise", "fusion", "pooled_only", "stack")
UNUSED_HEADS = ("state_head", "reward_head")  # of states and rewards, which no loss uses
LAST_ACTION, REWARD = tuple(range(70, 82)), 82  # behind the published state of 70 numbers
BLOCK = {"ln1": "norm1", "ln2": "norm2", "attn.proj": "project", "mlp.0": "expand", "mlp.2": "contract"}
NAMES = {  # published: ours
    "token_emb.temporal_emb": "encoder.time",
    "token_emb.vec_emb": "state",
    "token_emb.conv_emb": "state",
    "ln_head": "encoder.norm",
    "action_head.0": "head",
}
VECTOR = {
    **NAMES,
    "token_emb.patch_embedding": "tokenizer",
    "token_emb.spatial_emb": "tokenizer.positions",
    "token_emb.action_emb": "tokenizer.action",
    "token_emb.reward_emb.0": "tokenizer.reward",
}
IMAGE = {
    **NAMES,
    "token_emb.patch_embedding.1": "patches",
    "token_emb.spatial_emb": "positions",
    "token_emb.action_emb": "action",
    "token_emb.reward_emb.0": "reward",
}


def place(name: str, names: dict[str, str]) -> tuple[str, int]:
    """Our name of a published weight, and which of the parts of ours it is: of queries, keys and values."""
    for part, kind in enumerate(("query", "key", "value")):
        if f"attn.{kind}" in name:
            return place(name.replace(f"attn.{kind}", "qkv"), names)[0], part
    for published, ours in names.items():
        if name.startswith(published):
            return name.replace(published, ours), 0
    if "local_global_proj" in name or "local_norm" in name:
        head, _, rest = name.rpartition("local_")
        layer = head.removeprefix("blocks.").removesuffix(".") or "0"
        for published, ours in (("global_proj.0", "project"), ("global_proj.1", "norm"), ("norm", "token_norm")):
            if rest.startswith(published):
                return f"encoder.pooling.{layer}.{rest.replace(published, ours)}", 0
    for published, ours in (("local_block", "step"), ("global_block", "sequence")):
        if f".{published}." in name:
            _, layer, _, rest = name.split(".", 3)
            for old, new in BLOCK.items():
                rest = rest.replace(old, new)
            return f"encoder.{ours}_layers.{layer}.{rest}", 0
    return name, 0


def named(arrays: dict[str, np.ndarray], names: dict[str, str], network: torch.nn.Module) -> dict[str, np.ndarray]:
    """The published weights that the network has, under our names; tables without their axis of 1 in front."""
    parts: dict[str, list[np.ndarray]] = {}
    for key, array in arrays.items():  # queries, keys and values are not stored in this order
        if key.startswith("w/"):
            name, part = place(key[2:], names)
            parts.setdefault(name, [array[:0]] * 3)[part] = array
    weights = {name: np.concatenate(part) for name, part in parts.items()}
    state = network.state_dict()
    return {name: weight.reshape(state[name].shape) for name, weight in weights.items() if name in state}


def check_gradients(arrays: dict[str, np.ndarray], names: dict[str, str], network: torch.nn.Module) -> None:
    """Large tensors are published as every n-th entry; the gradient of a bias of keys is zero."""
    parameters = dict(network.named_parameters())
    compared = set()
    for key, expected in arrays.items():
        kind, _, published = key.partition("/")
        name, part = place(published, names)
        if kind not in ("grad", "gradsub") or name not in parameters:
            continue
        whole = parameters[name].grad.numpy()
        found = np.split(whole, 3)[part] if "qkv" in name else whole
        found = found.ravel()[:: round(found.size / expected.size)]
        limit = GRADIENT * np.abs(whole if name.endswith("qkv.bias") else expected).max()
        np.testing.assert_allclose(found, expected.ravel(), atol=limit, rtol=0, err_msg=published)
        compared.add(name)
    assert compared == parameters.keys()


def connection_of(path: Path) -> str:
    kinds = {"fusion": "fusion", "xconv": "pooled_only", "stack": "stack"}
    return next((ours for published, ours in kinds.items() if published in path.stem), "layer_wise")


def published_model(path: Path) -> tuple[dict[str, np.ndarray], PolicyModel]:
    arrays = read_arrays(path)
    state, action, steps, hidden, d, heads, token_heads, layers, reward = arrays["cfg"].tolist()
    config = StarformerConfig(
        observation=state + action + 1,
        action=action,
        groups=(Node("state", tuple(range(state))),),
        tokens="scalars",
        last_action=LAST_ACTION,
        reward=REWARD if reward else None,
        connection=connection_of(path),
        layers=layers,
        hidden=hidden,
        heads=heads,
        token_width=d,
        token_heads=token_heads,
        window=steps,
        time_table=steps,
    )
    arrays["observation"] = np.concatenate([arrays[name] for name in ("states", "actions", "rewards")], axis=-1)
    return arrays, model_of(config, named(arrays, VECTOR, Starformer(config)))


def features(network: torch.nn.Module) -> list[np.ndarray]:
    """What the layers of the sequence transformer give, once the network has run."""
    found: list[np.ndarray] = []
    for layer in network.encoder.sequence_layers:
        layer.register_forward_hook(lambda _layer, _inputs, output: found.append(output.detach().numpy()))
    return found


every_vector = pytest.mark.parametrize("path", sorted(DATA.glob("star*_vec_*.npz")), ids=lambda path: path.stem)
every_image = pytest.mark.parametrize("path", sorted(DATA.glob("star*_img_*.npz")), ids=lambda path: path.stem)


@every_vector
def test_outputs_features_and_gradients_match_the_published_network(path) -> None:
    arrays, model = published_model(path)
    network, seen = network_of(model), torch.from_numpy(arrays["observation"])
    layers = features(network)
    output = torch.tanh(network(seen))
    np.testing.assert_allclose(output.detach(), arrays["action_pred"], atol=SINGLE, rtol=0)
    np.testing.assert_allclose(layers, arrays["h_layers"], atol=5e-6, rtol=0)
    loss = (output - torch.from_numpy(arrays["target"])).square().mean()
    assert loss.item() == pytest.approx(float(arrays["loss"]), abs=SINGLE)
    loss.backward()
    check_gradients(arrays, VECTOR, network)
    tokens, expected = network.tokenizer(seen).detach().numpy(), arrays["step_tokens_0"]
    np.testing.assert_allclose(tokens[: len(expected), : expected.shape[1]], expected, atol=SINGLE, rtol=0)


@every_image
def test_the_image_form_matches_the_published_network(path) -> None:
    arrays = read_arrays(path)
    frames, _, _, patch, steps, action, hidden, d, heads, token_heads, layers, reward = arrays["cfg"].tolist()
    sizes = ImageSizes(
        action=action,
        discrete=True,
        reward=bool(reward),
        frames=frames,
        patch=patch,
        connection=connection_of(path),
        layers=layers,
        hidden=hidden,
        heads=heads,
        token_width=d,
        token_heads=token_heads,
        time_table=steps,
    )
    network = ImageStarformer(sizes)
    loaded(network, named(arrays, IMAGE, network))
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
    check_gradients(arrays, IMAGE, network)
