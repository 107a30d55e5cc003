"""The network in NumPy, step by step or on whole recorded sequences."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Floats, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.layers import gelu, layer_norm, linear, softmax
from fcnet_core.policies.starformer import EMPTY, StarformerConfig, has_pure_state, poolings

SEQUENCE_BLOCK = 64  # steps computed at a time: their windows stay in the cache
Rows = npt.NDArray[np.intp]


class Blocks(NamedTuple):
    """The blocks of the step transformer or of the sequence transformer, for L layers of a width w.

    Linear weights are (outputs, inputs).
    """

    norm: Floats  # (L, 4, w): weight and bias of norm1, weight and bias of norm2
    qkv_weight: Floats  # (L, 3 w, w)
    qkv_bias: Floats  # (L, 3 w)
    project_weight: Floats  # (L, w, w)
    project_bias: Floats  # (L, w)
    expand_weight: Floats  # (L, 4 w, w)
    expand_bias: Floats  # (L, 4 w)
    contract_weight: Floats  # (L, w, 4 w)
    contract_bias: Floats  # (L, w)


class Weights(NamedTuple):
    """A policy's weights as NumPy and ONNX use them, for P tokens of width d a step, K poolings to D channels.

    The linear layers of all tokens are one block matrix. Without a pure state, its weights are zero.
    """

    token_weight: Floats  # (P d, observation)
    token_bias: Floats  # (P d,)
    state_weight: Floats  # (D, observation)
    state_bias: Floats  # (D,)
    token_norm: Floats  # (K, 2, d): weight and bias; (0, 2, d) for a stack
    pool_weight: Floats  # (K, D, P d)
    pool_bias: Floats  # (K, D)
    pool_norm: Floats  # (K, 2, D): weight and bias
    pooled_time: Floats  # (n, D): what is added to the pooled vectors of a window
    state_time: Floats  # (n, D): and to the pure state
    final_norm: Floats  # (2, D): weight and bias
    head_weight: Floats  # (action, D)
    head_bias: Floats  # (action,)
    step: Blocks
    sequence: Blocks


def fold(model: PolicyModel, dtype: npt.DTypeLike = np.float32) -> Weights:
    """Stack the weights of a model."""
    config: StarformerConfig = model.card.config
    weights = {name: weight.astype(dtype) for name, weight in model.weights.items()}
    d, hidden, size, entries = config.token_width, config.hidden, config.observation, config.state_entries
    tokens = np.zeros((config.step_tokens, d, size), dtype)
    bias = np.zeros((config.step_tokens, d), dtype)
    tokens[0][:, list(config.last_action)] = weights["tokenizer.action.weight"]
    bias[0] = weights["tokenizer.action.bias"]
    tokens[1 + config.state_tokens, :, entries] = weights["tokenizer.weight"].T
    bias[1 : 2 + config.state_tokens[-1]] = weights["tokenizer.bias"] + weights.get("tokenizer.positions", 0)
    if config.reward is not None:
        tokens[-1, :, config.reward] = weights["tokenizer.reward.weight"][:, 0]
        bias[-1] = weights["tokenizer.reward.bias"]
    state, state_bias = np.zeros((hidden, size), dtype), np.zeros(hidden, dtype)
    if pure := has_pure_state(config.connection):
        state[:, entries], state_bias = weights["state.weight"], weights["state.bias"]
    time = weights["encoder.time"][: config.window]

    def stacked(part: str, count: int, *names: str) -> Floats:
        return np.stack([[weights[f"encoder.{part}.{index}.{name}"] for name in names] for index in range(count)])

    def blocks(part: str) -> Blocks:
        linears = {
            f"{name}_{kind}": stacked(part, config.layers, f"{name}.{kind}")[:, 0]
            for name in ("qkv", "project", "expand", "contract")
            for kind in ("weight", "bias")
        }
        norms = ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias")
        return Blocks(stacked(part, config.layers, *norms), **linears)

    count = poolings(config.connection, config.layers)
    normed = config.connection != "stack"
    return Weights(
        token_weight=tokens.reshape(-1, size),
        token_bias=bias.ravel(),
        state_weight=state,
        state_bias=state_bias,
        token_norm=(
            stacked("pooling", count, "token_norm.weight", "token_norm.bias") if normed else np.zeros((0, 2, d), dtype)
        ),
        pool_weight=stacked("pooling", count, "project.weight")[:, 0],
        pool_bias=stacked("pooling", count, "project.bias")[:, 0],
        pool_norm=stacked("pooling", count, "norm.weight", "norm.bias"),
        pooled_time=np.zeros_like(time) if config.connection == "fusion" else time,
        state_time=time if pure else np.zeros_like(time),
        final_norm=np.stack([weights["encoder.norm.weight"], weights["encoder.norm.bias"]]),
        head_weight=weights["head.weight"],
        head_bias=weights["head.bias"],
        step=blocks("step_layers"),
        sequence=blocks("sequence_layers"),
    )


class Forward:
    """The step transformer for B observations, and the sequence transformer for B windows of what that gave."""

    def __init__(self, model: PolicyModel, dtype: npt.DTypeLike) -> None:
        config: StarformerConfig = model.card.config
        self.weights, self._config = fold(model, dtype), config
        earlier = np.where(np.tri(config.window, dtype=np.bool_), 0, EMPTY).astype(dtype)
        both = config.connection == "layer_wise"
        self._visible = np.concatenate([earlier, earlier], axis=1) if both else earlier  # (n, n) or (n, 2 n)

    def steps(self, x: Floats) -> Floats:
        """What is kept of steps, (B, K + 1, D): their pooled vectors and the pure state; x is (B, observation)."""
        w, config = self.weights, self._config
        tokens = linear(x, w.token_weight, w.token_bias).reshape(len(x), -1, config.token_width)
        if config.reward is not None:
            tokens[:, -1] = np.tanh(tokens[:, -1])
        kept: list[Floats] = []
        for layer in range(config.layers):
            tokens = attend(w.step, layer, config.token_heads, tokens, tokens[:, :0])
            if len(w.token_norm) or layer == config.layers - 1:
                place = len(kept)
                normed = layer_norm(tokens, *w.token_norm[place]) if len(w.token_norm) else tokens
                pooled = linear(normed.reshape(len(x), -1), w.pool_weight[place], w.pool_bias[place])
                kept.append(layer_norm(pooled, *w.pool_norm[place]))
        return np.stack([*kept, linear(x, w.state_weight, w.state_bias)], axis=1)

    def newest(self, kept: Floats, last: Rows) -> Floats:
        """Outputs (B, action) of windows (B, K + 1, n, D), each of its step `last` (B,), which sees none behind it."""
        w, config = self.weights, self._config
        poolings, layers = kept.shape[1] - 1, config.layers
        h: Floats = kept[:, -1] + w.state_time
        for layer in range(layers):
            context = kept[:, layer] + w.pooled_time if layer < poolings else h[:, :0]
            if config.connection != "layer_wise" and layer < poolings:
                h, context = h + context, context[:, :0]
            rows = last if layer == layers - 1 else None
            h = attend(w.sequence, layer, config.heads, h, context, self._visible, rows)
        return linear(layer_norm(h[:, 0], *w.final_norm), w.head_weight, w.head_bias)


def attend(
    w: Blocks,
    layer: int,
    heads: int,
    x: Floats,
    context: Floats,
    visible: Floats | None = None,
    rows: Rows | None = None,
) -> Floats:
    """A block on x (B, n, w), which attends to `context` (B, m, w) and to itself; on one of its rows (B,), if given.

    visible: what is added to the scores (n, m + n).
    """
    norm, width = w.norm[layer], x.shape[-1]
    seen = layer_norm(np.concatenate([context, x], axis=1), norm[0], norm[1])
    normed = seen[:, context.shape[1] :]
    if rows is not None:
        x, normed = (part[np.arange(len(x)), rows][:, None] for part in (x, normed))
    weight, bias = w.qkv_weight[layer], w.qkv_bias[layer]

    def by_head(part: Floats) -> Floats:
        return part.reshape(*part.shape[:2], heads, width // heads).swapaxes(1, 2)  # (B, H, n, w / H)

    q = by_head(linear(normed, weight[:width], bias[:width]))
    k, v = (by_head(part) for part in np.split(linear(seen, weight[width:], bias[width:]), 2, axis=-1))
    scores = q @ k.swapaxes(-1, -2)
    scores /= math.sqrt(width // heads)
    if visible is not None:
        scores += visible if rows is None else visible[rows][:, None, None]
    mixed = (softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape)
    x = x + linear(mixed, w.project_weight[layer], w.project_bias[layer])
    inner = gelu(linear(layer_norm(x, norm[2], norm[3]), w.expand_weight[layer], w.expand_bias[layer]))
    return x + linear(inner, w.contract_weight[layer], w.contract_bias[layer])


class Step:
    """A NetworkStep that keeps the pooled vectors and the pure state of each robot's last n steps, oldest first."""

    def __init__(self, model: PolicyModel, batch: int, dtype: npt.DTypeLike) -> None:
        config: StarformerConfig = model.card.config
        self._forward, self._window = Forward(model, dtype), config.window
        kept = poolings(config.connection, config.layers) + 1
        self._kept: Floats = np.zeros((batch, kept, config.window, config.hidden), dtype)
        self._counts, self._robots = np.zeros(batch, dtype=np.intp), np.arange(batch)

    def reset(self, chosen: Mask | slice) -> None:
        """Forget the past of the chosen robots; rows after a robot's newest step are never read."""
        self._counts[chosen] = 0

    def step(self, x: Floats) -> Floats:
        full = self._counts == self._window
        self._kept[full, :, :-1] = self._kept[full, :, 1:]
        last = np.minimum(self._counts, self._window - 1)
        self._kept[self._robots, :, last] = self._forward.steps(x)
        self._counts = last + 1
        return self._forward.newest(self._kept, last)


class Sequence:
    """The policy on whole recorded sequences."""

    def __init__(self, model: PolicyModel) -> None:
        self._forward, self._window = Forward(model, np.float32), model.card.config.window

    def run(self, x: Single) -> Floats:
        """Return outputs (T, action) for normalised observations (T, observation) after a reset."""
        blocks = [np.arange(start, min(start + SEQUENCE_BLOCK, len(x))) for start in range(0, len(x), SEQUENCE_BLOCK)]
        kept = np.concatenate([self._forward.steps(x[block]) for block in blocks])  # (T, K + 1, D)
        outputs = []
        for block in blocks:
            oldest = np.maximum(block - self._window + 1, 0)
            windows = np.minimum(oldest[:, None] + np.arange(self._window), len(x) - 1)  # (block, n)
            outputs.append(self._forward.newest(kept[windows].swapaxes(1, 2), block - oldest))
        return np.concatenate(outputs)
