"""The network in NumPy, step by step or on whole recorded sequences, and as a step of an ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Floats, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.layers import gelu_tanh, layer_norm, linear, softmax
from fcnet_core.policies.transformer import TransformerConfig

if TYPE_CHECKING:
    from fcnet_core.policies.onnx_graph import GraphBuilder

SEQUENCE_BLOCK = 128  # steps computed at a time: with the window before them, what they attend to stays in the cache
EMPTY = -1e30  # added to the score of an empty place of the ring: its share is then 0
Attend = Callable[[int, Floats, Floats, Floats], Floats]  # layer, queries, keys, values -> mixed values, all (..., d)


class Weights(NamedTuple):
    """A policy's weights as every runtime uses them: stacked by layer, for L layers with d channels and H heads.

    Linear weights are (outputs, inputs).
    """

    embed_weight: Floats  # (d, observation)
    embed_bias: Floats  # (d,)
    embed_norm: Floats  # (2, d): weight and bias
    norm: Floats  # (L, 4, d): weight and bias of norm1, weight and bias of norm2
    qkv_weight: Floats  # (L, 3 d, d)
    qkv_bias: Floats  # (L, 3 d)
    project_weight: Floats  # (L, d, d)
    project_bias: Floats  # (L, d)
    expand_weight: Floats  # (L, 4 d, d)
    expand_bias: Floats  # (L, 4 d)
    contract_weight: Floats  # (L, d, 4 d)
    contract_bias: Floats  # (L, d)
    final_norm: Floats  # (2, d): weight and bias
    head_weight: Floats  # (action, d)
    head_bias: Floats  # (action,)


def fold(model: PolicyModel, dtype: npt.DTypeLike = np.float32) -> Weights:
    """Stack the weights of a model."""
    config, weights = model.card.config, model.weights

    def stacked(*names: str) -> Floats:
        return np.stack([weights[name] for name in names]).astype(dtype, copy=False)

    def by_layer(name: str) -> Floats:
        return stacked(*(f"stack.layers.{layer}.{name}" for layer in range(config.layers)))

    norms = [by_layer(name) for name in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias")]
    return Weights(
        embed_weight=weights["embed.weight"].astype(dtype),
        embed_bias=weights["embed.bias"].astype(dtype),
        embed_norm=stacked("embed_norm.weight", "embed_norm.bias"),
        norm=np.stack(norms, axis=1),
        qkv_weight=by_layer("qkv.weight"),
        qkv_bias=by_layer("qkv.bias"),
        project_weight=by_layer("project.weight"),
        project_bias=by_layer("project.bias"),
        expand_weight=by_layer("expand.weight"),
        expand_bias=by_layer("expand.bias"),
        contract_weight=by_layer("contract.weight"),
        contract_bias=by_layer("contract.bias"),
        final_norm=stacked("stack.norm.weight", "stack.norm.bias"),
        head_weight=weights["head.weight"].astype(dtype),
        head_bias=weights["head.bias"].astype(dtype),
    )


def forward(weights: Weights, attend: Attend, x: Floats) -> Floats:
    """Return network outputs (..., action) for normalised observations (..., observation)."""
    w = weights
    hidden = layer_norm(linear(x, w.embed_weight, w.embed_bias), *w.embed_norm)
    for layer, norm in enumerate(w.norm):
        qkv = linear(layer_norm(hidden, norm[0], norm[1]), w.qkv_weight[layer], w.qkv_bias[layer])
        mixed = attend(layer, *np.split(qkv, 3, axis=-1))
        hidden += linear(mixed, w.project_weight[layer], w.project_bias[layer])
        inner = linear(layer_norm(hidden, norm[2], norm[3]), w.expand_weight[layer], w.expand_bias[layer])
        hidden += linear(gelu_tanh(inner), w.contract_weight[layer], w.contract_bias[layer])
    return linear(layer_norm(hidden, *w.final_norm), w.head_weight, w.head_bias)


class Step:
    """A NetworkStep that keeps the keys and values of each robot's last n steps."""

    def __init__(self, model: PolicyModel, batch: int, dtype: npt.DTypeLike) -> None:
        self._weights = fold(model, dtype)
        self._ring = KeyValueRing(model.card.config, batch, dtype)

    def reset(self, chosen: Mask | slice) -> None:
        self._ring.reset(chosen)

    def step(self, x: Floats) -> Floats:
        output = forward(self._weights, self._ring.attend, x)
        self._ring.advance()
        return output


class KeyValueRing:
    """Rings of the keys and values of the last n steps of B robots, each with a count of its own since its reset.

    There are no positions, so that a ring's order does not matter.
    """

    def __init__(self, config: TransformerConfig, batch: int, dtype: npt.DTypeLike) -> None:
        shape = (config.layers, batch, config.heads, config.hidden // config.heads, config.window)
        self._keys: Floats = np.zeros(shape, dtype)
        self._values: Floats = np.zeros(shape, dtype)
        self._robots, self._counts = np.arange(batch), np.zeros(batch, dtype=np.int64)

    def reset(self, chosen: Mask | slice) -> None:
        """Empty the rings of the chosen robots; what is in an empty place is never looked at."""
        self._counts[chosen] = 0

    def attend(self, layer: int, q: Floats, k: Floats, v: Floats) -> Floats:
        """Attention of queries (B, d) to the steps in the ring and to this one, whose keys and values are k and v."""
        keys, values = self._keys[layer], self._values[layer]
        batch, heads, width, window = keys.shape
        slot, filled = self._counts % window, np.minimum(self._counts + 1, window)
        keys[self._robots, :, :, slot] = k.reshape(batch, heads, width)
        values[self._robots, :, :, slot] = v.reshape(batch, heads, width)
        used = int(filled.max())
        scores = q.reshape(batch, heads, 1, width) @ keys[..., :used]
        scores /= math.sqrt(width)
        scores += np.where(np.arange(used) < filled[:, None], 0.0, EMPTY).astype(scores.dtype)[:, None, None]
        mixed: Floats = values[..., :used] @ softmax(scores).reshape(batch, heads, used, 1)
        return mixed.reshape(batch, heads * width)

    def advance(self) -> None:
        """Go on to the next step, once all layers have seen this one."""
        self._counts += 1


class Sequence:
    """The policy over whole recorded sequences at once: attention within a band of n steps, block by block."""

    def __init__(self, model: PolicyModel) -> None:
        self._weights, self._config = fold(model), model.card.config

    def run(self, x: Single) -> Floats:
        """Return outputs (T, action) for normalised observations (T, observation) after a reset."""
        attend = BandedAttention(self._config).attend
        starts = range(0, len(x), SEQUENCE_BLOCK)
        return np.concatenate([forward(self._weights, attend, x[start : start + SEQUENCE_BLOCK]) for start in starts])


class BandedAttention:
    """Attention of the steps of one sequence, given in blocks, to the last n steps; keeps those before the block."""

    def __init__(self, config: TransformerConfig) -> None:
        self._heads, self._window = config.heads, config.window
        self._past: list[tuple[Floats, Floats]] = [
            (np.empty((0, config.hidden), np.float32), np.empty((0, config.hidden), np.float32))
            for _ in range(config.layers)
        ]

    def attend(self, layer: int, q: Floats, k: Floats, v: Floats) -> Floats:
        """Mixed values of a block; q, k and v are (steps, d)."""
        keys, values = (np.concatenate(pair) for pair in zip(self._past[layer], (k, v), strict=True))
        steps, kept = len(q), len(keys) - len(q)
        age = np.arange(kept, kept + steps)[:, None] - np.arange(kept + steps)
        scores = self._by_head(q) @ self._by_head(keys).transpose(0, 2, 1)
        scores /= math.sqrt(q.shape[1] // self._heads)
        scores += np.where((age >= 0) & (age < self._window), 0.0, EMPTY).astype(scores.dtype)
        mixed = softmax(scores) @ self._by_head(values)
        oldest = max(0, len(keys) - (self._window - 1))
        self._past[layer] = keys[oldest:], values[oldest:]
        return mixed.transpose(1, 0, 2).reshape(steps, -1)

    def _by_head(self, x: Floats) -> Floats:
        """(steps, d) as (H, steps, d / H)."""
        return x.reshape(len(x), self._heads, -1).transpose(1, 0, 2)


def add_to_graph(g: GraphBuilder, model: PolicyModel) -> str:
    """Add a step to a graph whose caller keeps the rings; return the name of its output.

    Memory: steps (B, 1) since the reset; keys_0, values_0, ... of every layer (B, d, n).
    """
    config, w = model.card.config, fold(model)
    d, n, heads = config.hidden, config.window, config.heads
    hidden = g.layer_norm(g.linear(g.observation(), w.embed_weight, w.embed_bias), *w.embed_norm)
    steps = g.memory("steps", ["batch", 1], np.int64)
    count = g.keep(steps, g.add("Add", steps, g.constant(np.array([1]))))
    slot = g.add("Unsqueeze", g.add("Mod", steps, g.constant(np.array([n]))), g.constant(np.array([2])))
    slots = g.add("Mul", slot, g.constant(np.ones((1, d, 1), np.int64)))  # (B, d, 1)
    empty = g.add("GreaterOrEqual", g.constant(np.arange(n)), count)
    mask = g.add("Where", empty, g.constant(np.array([EMPTY], np.float32)), g.constant(np.zeros(1, np.float32)))
    mask = g.add("Unsqueeze", mask, g.constant(np.array([1, 2])))  # (B, 1, 1, n)
    scale = g.constant(np.array([math.sqrt(heads / d)], np.float32))

    def reshaped(value: str, *shape: int) -> str:
        return g.add("Reshape", value, g.constant(np.array([0, *shape])))

    def ring(name: str, newest: str) -> str:
        """Put this step's (B, d) into the ring of that name; the ring by head (B, H, d / H, n)."""
        old = g.memory(name, ["batch", d, n])
        column = g.add("Unsqueeze", newest, g.constant(np.array([2])))
        return reshaped(g.keep(old, g.add("ScatterElements", old, slots, column, axis=2)), heads, d // heads, n)

    for layer, norm in enumerate(w.norm):
        normed = g.layer_norm(hidden, norm[0], norm[1])
        parts = zip(np.split(w.qkv_weight[layer], 3), np.split(w.qkv_bias[layer], 3), strict=True)
        q, k, v = (g.linear(normed, weight, bias) for weight, bias in parts)
        scores = g.add("MatMul", reshaped(g.add("Mul", q, scale), heads, 1, d // heads), ring(f"keys_{layer}", k))
        shares = g.add("Softmax", g.add("Add", scores, mask), axis=-1)
        mixed = g.add("MatMul", ring(f"values_{layer}", v), reshaped(shares, heads, n, 1))
        hidden = g.add("Add", hidden, g.linear(reshaped(mixed, d), w.project_weight[layer], w.project_bias[layer]))
        normed = g.layer_norm(hidden, norm[2], norm[3])
        inner = g.add("Gelu", g.linear(normed, w.expand_weight[layer], w.expand_bias[layer]), approximate="tanh")
        hidden = g.add("Add", hidden, g.linear(inner, w.contract_weight[layer], w.contract_bias[layer]))
    return g.linear(g.layer_norm(hidden, *w.final_norm), w.head_weight, w.head_bias)
