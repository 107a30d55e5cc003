"""The network as a step of an ONNX graph."""

from __future__ import annotations

import math

import numpy as np

from fcnet_core.arrays import Floats
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.onnx_graph import GraphBuilder
from fcnet_core.policies.starformer import EMPTY, StarformerConfig
from fcnet_core.policies.starformer.step import Blocks, Weights, fold


def add_to_graph(g: GraphBuilder, model: PolicyModel) -> str:
    """Add a step to a graph; return the name of its output.

    Memory: steps (B, 1) since the reset; kept (B, n, (K + 1) D), the pooled vectors and the pure state of the steps of
    the window, oldest first from the front on.
    """
    config: StarformerConfig = model.card.config
    w, n, hidden = fold(model), config.window, config.hidden
    newest = _newest(g, config, w)
    steps = g.memory("steps", ["batch", 1], np.int64)
    g.keep(steps, g.add("Add", steps, g.constant(np.array([1]))))
    last = g.add("Equal", g.add("Min", steps, g.constant(np.array([n - 1]))), g.constant(np.arange(n)))  # (B, n)
    kept = g.memory("kept", ["batch", n, (len(w.pool_weight) + 1) * hidden])
    older = g.add("Slice", kept, *(g.constant(np.array([number])) for number in (1, n, 1)))
    slid = g.add("Concat", older, newest, axis=1)
    filled = g.add("Where", g.add("Unsqueeze", last, g.constant(np.array([2]))), newest, kept)
    full = g.add("Unsqueeze", g.add("GreaterOrEqual", steps, g.constant(np.array([n]))), g.constant(np.array([2])))
    window = g.keep(kept, g.add("Where", full, slid, filled))

    starts = range(0, (len(w.pool_weight) + 1) * hidden, hidden)
    *pooled, state = (
        g.add("Slice", window, *(g.constant(np.array([number])) for number in (start, start + hidden, 2)))
        for start in starts
    )
    earlier = np.where(np.tri(n, dtype=np.bool_), 0, EMPTY).astype(np.float32)
    pair = config.connection == "layer_wise"
    visible = g.constant(np.concatenate([earlier, earlier], axis=1) if pair else earlier)
    chosen = g.add("Unsqueeze", g.add("Cast", last, to=g.SINGLE), g.constant(np.array([1])))  # (B, 1, n)
    h = g.add("Add", state, g.constant(w.state_time))
    for layer in range(config.layers):
        context = g.add("Add", pooled[layer], g.constant(w.pooled_time)) if layer < len(pooled) else ""
        if context and not pair:
            h, context = g.add("Add", h, context), ""
        alone = chosen if layer == config.layers - 1 else ""
        h = _block(g, w.sequence, layer, config.heads, h, context, visible, alone)
    features = g.add("Flatten", g.layer_norm(h, *w.final_norm))
    return g.linear(features, w.head_weight, w.head_bias)


def _newest(g: GraphBuilder, config: StarformerConfig, w: Weights) -> str:
    """What is kept of this step (B, 1, (K + 1) D)."""
    x, d = g.observation(), config.token_width
    if config.reward is None:
        seen = g.linear(x, w.token_weight, w.token_bias)
    else:
        reward = g.add("Tanh", g.linear(x, w.token_weight[-d:], w.token_bias[-d:]))
        seen = g.add("Concat", g.linear(x, w.token_weight[:-d], w.token_bias[:-d]), reward, axis=1)
    tokens = g.add("Reshape", seen, g.constant(np.array([-1, config.step_tokens, d])))
    kept: list[str] = []
    for layer in range(config.layers):
        tokens = _block(g, w.step, layer, config.token_heads, tokens)
        if config.connection != "stack" or layer == config.layers - 1:
            place = len(kept)
            normed = g.layer_norm(tokens, *w.token_norm[place]) if len(w.token_norm) else tokens
            pooled = g.linear(g.add("Flatten", normed), w.pool_weight[place], w.pool_bias[place])
            kept.append(g.layer_norm(pooled, *w.pool_norm[place]))
    kept.append(g.linear(x, w.state_weight, w.state_bias))
    return g.add("Unsqueeze", g.add("Concat", *kept, axis=1), g.constant(np.array([1])))


def _block(
    g: GraphBuilder, w: Blocks, layer: int, heads: int, x: str, context: str = "", visible: str = "", chosen: str = ""
) -> str:
    """A block on x (B, n, w), which attends to `context` (B, m, w) and to itself; of the steps that `chosen` (B, 1, n)
    marks alone, if given. visible: what is added to the scores (n, m + n).
    """
    norm, width = w.norm[layer], w.norm.shape[-1]

    def linear(value: str, weight: Floats, bias: Floats) -> str:
        return g.add("Add", g.add("MatMul", value, g.constant(weight.T)), g.constant(bias))

    def by_head(value: str, *order: int) -> str:
        split = g.add("Reshape", value, g.constant(np.array([0, 0, heads, width // heads])))
        return g.add("Transpose", split, perm=order)

    def normalised(value: str, place: int) -> str:
        return g.layer_norm(value, norm[place], norm[place + 1])

    seen = normed = normalised(x, 0)
    if context:
        seen = g.add("Concat", normalised(context, 0), normed, axis=1)
    if chosen:
        x, normed = (g.add("MatMul", chosen, value) for value in (x, normed))
    parts = zip((normed, seen, seen), np.split(w.qkv_weight[layer], 3), np.split(w.qkv_bias[layer], 3), strict=True)
    q, k, v = (linear(*part) for part in parts)
    scale = g.constant(np.array([math.sqrt(heads / width)], np.float32))
    scores = g.add("MatMul", by_head(g.add("Mul", q, scale), 0, 2, 1, 3), by_head(k, 0, 2, 3, 1))
    if visible:
        rows = g.add("Unsqueeze", g.add("MatMul", chosen, visible), g.constant(np.array([1]))) if chosen else visible
        scores = g.add("Add", scores, rows)
    mixed = g.add("MatMul", g.add("Softmax", scores, axis=-1), by_head(v, 0, 2, 1, 3))
    joined = g.add("Reshape", g.add("Transpose", mixed, perm=[0, 2, 1, 3]), g.constant(np.array([0, 0, width])))
    x = g.add("Add", x, linear(joined, w.project_weight[layer], w.project_bias[layer]))
    inner = g.add("Gelu", linear(normalised(x, 2), w.expand_weight[layer], w.expand_bias[layer]))
    return g.add("Add", x, linear(inner, w.contract_weight[layer], w.contract_bias[layer]))
