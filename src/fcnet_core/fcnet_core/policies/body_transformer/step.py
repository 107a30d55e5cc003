"""The network in NumPy, step by step or on whole recorded sequences, and as a step of an ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from fcnet_core.arrays import Floats, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.body_transformer import EMPTY, BodyTransformerConfig
from fcnet_core.policies.layers import layer_norm, linear, softmax

if TYPE_CHECKING:
    from fcnet_core.policies.onnx_graph import GraphBuilder

SEQUENCE_BLOCK = 128  # steps computed at a time: their tokens stay in the cache


class Weights(NamedTuple):
    """A policy's weights as NumPy and ONNX use them, for L layers with d channels and n nodes.

    Linear weights are (outputs, inputs). The linear layers of all nodes are one block matrix, at either end.
    """

    token_weight: Floats  # (n d, window * observation)
    token_bias: Floats  # (n d,), with the positions
    score_bias: Floats  # (L, n, n): what is added to the scores of queries (rows) and keys
    qkv_weight: Floats  # (L, 3 d, d)
    qkv_bias: Floats  # (L, 3 d)
    project_weight: Floats  # (L, d, d)
    project_bias: Floats  # (L, d)
    expand_weight: Floats  # (L, f, d)
    expand_bias: Floats  # (L, f)
    contract_weight: Floats  # (L, d, f)
    contract_bias: Floats  # (L, d)
    norm: Floats  # (L, 4, d): weight and bias of norm1, weight and bias of norm2
    head_weight: Floats  # (action, n d)
    head_bias: Floats  # (action,)


def fold(model: PolicyModel, dtype: npt.DTypeLike = np.float32) -> Weights:
    """Stack the weights of a model."""
    config: BodyTransformerConfig = model.card.config
    weights = {name: weight.astype(dtype) for name, weight in model.weights.items()}
    nodes, d, window = len(config.graph.nodes), config.hidden, config.window
    entries, of_nodes = config.graph.observation_entries
    tokens = np.zeros((nodes, d, window, config.observation), dtype)
    packed = weights["tokenizer.weight"].reshape(d, window, len(entries))
    tokens[of_nodes, :, :, entries] = packed.transpose(2, 0, 1)
    head = np.zeros((config.action, nodes, d), dtype)
    head[np.arange(config.action), config.graph.action_nodes] = weights["detokenizer.weight"]
    by_layer = {
        f"{name}_{kind}": np.stack([weights[f"layers.{layer}.{name}.{kind}"] for layer in range(config.layers)])
        for name in ("qkv", "project", "expand", "contract", "norm1", "norm2")
        for kind in ("weight", "bias")
    }
    norms = [by_layer.pop(f"{name}_{kind}") for name in ("norm1", "norm2") for kind in ("weight", "bias")]
    return Weights(
        token_weight=tokens.reshape(nodes * d, window * config.observation),
        token_bias=(weights["tokenizer.bias"] + weights.get("positions", 0)).ravel(),
        score_bias=score_bias(model).astype(dtype),
        norm=np.stack(norms, axis=1),
        head_weight=head.reshape(config.action, nodes * d),
        head_bias=weights["detokenizer.bias"],
        **by_layer,
    )


def score_bias(model: PolicyModel) -> Single:
    """What is added to the scores of every layer (L, n, n): the mask, or the bias of the lengths of paths."""
    config: BodyTransformerConfig = model.card.config
    if config.mask == "soft":
        bias = model.weights["path_bias"][config.graph.paths]
        return np.repeat(bias[None], config.layers, axis=0).astype(np.float32)
    layers = [np.where(config.admitted(layer), 0, EMPTY) for layer in range(config.layers)]
    return np.stack(layers).astype(np.float32)


def forward(w: Weights, heads: int, x: Floats, watch: Callable[[Floats], object] = lambda _attention: None) -> Floats:
    """Return network outputs (B, action) for stacked windows (B, window * observation).

    watch: is given the attention of every layer in turn (B, H, n, n), from queries (rows) to keys.
    """
    batch, nodes, d = len(x), w.score_bias.shape[1], w.norm.shape[2]
    hidden = linear(x, w.token_weight, w.token_bias).reshape(batch, nodes, d)
    for layer, norm in enumerate(w.norm):
        qkv = linear(hidden, w.qkv_weight[layer], w.qkv_bias[layer]).reshape(batch, nodes, 3, heads, d // heads)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)  # (B, H, n, d / H)
        scores = q @ k.swapaxes(-1, -2)
        scores /= math.sqrt(d // heads)
        scores += w.score_bias[layer]
        attention = softmax(scores)
        watch(attention)
        mixed = (attention @ v).swapaxes(1, 2).reshape(batch, nodes, d)
        hidden += linear(mixed, w.project_weight[layer], w.project_bias[layer])
        hidden = layer_norm(hidden, norm[0], norm[1])
        inner = np.maximum(linear(hidden, w.expand_weight[layer], w.expand_bias[layer]), 0)
        hidden += linear(inner, w.contract_weight[layer], w.contract_bias[layer])
        hidden = layer_norm(hidden, norm[2], norm[3])
    return linear(hidden.reshape(batch, nodes * d), w.head_weight, w.head_bias)


class Step:
    """NetworkStep that keeps the last observations of each robot."""

    def __init__(self, model: PolicyModel, batch: int, dtype: npt.DTypeLike) -> None:
        config = model.card.config
        self._weights, self._heads = fold(model, dtype), config.heads
        self._windows: Floats = np.zeros((batch, config.window, config.observation), dtype)

    def reset(self, chosen: Mask | slice) -> None:
        self._windows[chosen] = 0

    def step(self, x: Floats) -> Floats:
        self._windows[:, :-1] = self._windows[:, 1:]
        self._windows[:, -1] = x
        return forward(self._weights, self._heads, self._windows.reshape(len(x), -1))


class Sequence:
    """The policy on whole recorded sequences."""

    def __init__(self, model: PolicyModel) -> None:
        self._weights, self._config = fold(model), model.card.config

    def run(self, x: Single) -> Floats:
        """Return outputs (T, action) for normalised observations (T, observation) after a reset."""
        return np.concatenate([forward(self._weights, self._config.heads, block) for block in self._blocks(x)])

    def attention(self, x: Single) -> Iterator[Floats]:
        """The attention (B, L, H, n, n), from queries (rows) to keys, of the same steps, B of them at a time."""
        for block in self._blocks(x):
            layers: list[Floats] = []
            forward(self._weights, self._config.heads, block, layers.append)
            yield np.stack(layers, axis=1)

    def _blocks(self, x: Single) -> Iterator[Floats]:
        """Stacked windows (B, window * observation) of all steps in turn."""
        window = self._config.window
        padded = np.concatenate([np.zeros((window - 1, x.shape[1]), np.float32), x])
        windows = sliding_window_view(padded, window, axis=0).transpose(0, 2, 1)  # (T, window, observation)
        for start in range(0, len(x), SEQUENCE_BLOCK):
            block = windows[start : start + SEQUENCE_BLOCK]
            yield block.reshape(len(block), -1)


def add_to_graph(g: GraphBuilder, model: PolicyModel) -> str:
    """Add a step to a graph whose caller keeps the window, oldest first; return the name of its output."""
    config, w = model.card.config, fold(model)
    nodes, d, heads = w.score_bias.shape[1], config.hidden, config.heads

    def shaped(value: str, *shape: int) -> str:
        return g.add("Reshape", value, g.constant(np.array([-1, *shape])))

    newest = g.add("Unsqueeze", g.observation(), g.constant(np.array([1])))
    window = g.memory("window", ["batch", config.window, config.observation])
    older = g.add("Slice", window, *(g.constant(np.array([place])) for place in (1, config.window, 1)))
    x = g.add("Flatten", g.keep("window", g.add("Concat", older, newest, axis=1)))
    hidden = shaped(g.linear(x, w.token_weight, w.token_bias), d)  # (B n, d)
    scale = g.constant(np.array([math.sqrt(heads / d)], np.float32))
    for layer, norm in enumerate(w.norm):
        parts = zip(np.split(w.qkv_weight[layer], 3), np.split(w.qkv_bias[layer], 3), strict=True)
        q, k, v = (shaped(g.linear(hidden, weight, bias), nodes, heads, d // heads) for weight, bias in parts)
        q, v = (g.add("Transpose", value, perm=[0, 2, 1, 3]) for value in (q, v))
        scores = g.add("MatMul", g.add("Mul", q, scale), g.add("Transpose", k, perm=[0, 2, 3, 1]))
        shares = g.add("Softmax", g.add("Add", scores, g.constant(w.score_bias[layer])), axis=-1)
        mixed = shaped(g.add("Transpose", g.add("MatMul", shares, v), perm=[0, 2, 1, 3]), d)
        hidden = g.add("Add", hidden, g.linear(mixed, w.project_weight[layer], w.project_bias[layer]))
        hidden = g.layer_norm(hidden, norm[0], norm[1])
        inner = g.add("Relu", g.linear(hidden, w.expand_weight[layer], w.expand_bias[layer]))
        hidden = g.add("Add", hidden, g.linear(inner, w.contract_weight[layer], w.contract_bias[layer]))
        hidden = g.layer_norm(hidden, norm[2], norm[3])
    return g.linear(shaped(hidden, nodes * d), w.head_weight, w.head_bias)
