"""One robot's StARformer compiled with numba, the default on a robot.

The tokens of the newest step, and then the steps of the window, are rows. Of the last layer of the sequence transformer
only the newest step is computed, with keys and values of all steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fcnet_core.arrays import Floats, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.compiled_layers import (
    COMPILE,
    ONE,
    TILE,
    ZERO,
    StepData,
    add,
    denormalise,
    exponential,
    gelu,
    layer_norm,
    linear,
    linear_rows,
    normalise,
    stored,
    stored_for_rows,
)
from fcnet_core.policies.simd import LANES, packed, whole
from fcnet_core.policies.starformer import EMPTY, EXPANSION, StarformerConfig
from fcnet_core.policies.starformer.step import Blocks, fold


class Rows(NamedTuple):
    """The blocks of one of the two transformers; matrices as `stored_for_rows`, biases in whole vectors."""

    norm: Single  # (L, 4, w): weight and bias of norm1, weight and bias of norm2
    q_weight: Any
    q_bias: Single
    kv_weight: Any
    kv_bias: Single
    project_weight: Any
    project_bias: Single
    expand_weight: Any
    expand_bias: Single
    contract_weight: Any
    contract_bias: Single
    visible: Single  # (n, keys): what is added to the scores of a row


class Weights(NamedTuple):
    """A policy's weights, as in step.py; matrices that multiply a vector as `stored`. new: the newest step in the last
    layer of the sequence transformer.
    """

    counts: npt.NDArray[np.intp]  # (3,): heads of the step transformer, of the sequence transformer, tokens of rewards
    token_weight: Any
    token_bias: Single  # (P d,)
    state_weight: Any
    state_bias: Single
    token_norm: Single  # (K, 2, d); (0, 2, d) for a stack
    pool_weight: Any
    pool_bias: Single  # (K, D)
    pool_norm: Single  # (K, 2, D)
    pooled_time: Single  # (n, D)
    state_time: Single  # (n, D)
    new_norm: Single  # (4, D)
    new_q_weight: Any
    new_q_bias: Single
    new_project_weight: Any
    new_project_bias: Single
    new_expand_weight: Any
    new_expand_bias: Single
    new_contract_weight: Any
    new_contract_bias: Single
    final_norm: Single  # (2, D)
    head_weight: Any
    head_bias: Single


class Model(NamedTuple):
    """All weights."""

    step: Rows
    sequence: Rows
    rest: Weights


class Memory(NamedTuple):
    """What is kept of the steps of the window, as a ring, and the space a step works in, used as (rows, channels)."""

    kept: Single  # (n, K + 1, D): pooled vectors and pure state
    scaled: Single  # (observation,)
    tokens: Single  # (P d,)
    vectors: Single  # (4, 4 D): of the newest step
    share: Single  # (keys,)
    x: Single
    context: Single
    normed: Single
    seen: Single
    q: Single
    kv: Single
    columns: Single  # keys and values, (2 w, keys)
    inner: Single
    added: Single


@njit(cache=True, **COMPILE)
def step(observation: Single, action: Single, count: int, data: StepData) -> bool:
    """Write the action for one observation; return False, with the memory unchanged, if that is not finite."""
    units, model, memory = data.units, data.weights, data.memory
    if not normalise(observation, units, memory.scaled):
        return False
    keep_step(model.step, model.rest, memory, memory.kept[count % memory.kept.shape[0]])
    newest_step(model.sequence, model.rest, memory, count, action)
    denormalise(action, units)
    return True


@njit(**COMPILE)
def keep_step(blocks: Rows, w: Weights, memory: Memory, kept: Single) -> None:
    """Set kept (K + 1, D) to the pooled vectors and the pure state of the observation in `scaled`."""
    layers, _, d = blocks.norm.shape
    tokens, poolings = blocks.visible.shape[0], w.pool_bias.shape[0]
    x, normed, vector = space(memory.x, tokens, d), space(memory.normed, tokens, d), memory.vectors[0, : kept.shape[1]]
    linear(memory.scaled, w.token_weight, w.token_bias, memory.tokens)
    for place in range(memory.tokens.size - w.counts[2] * d, memory.tokens.size):
        memory.tokens[place] = np.tanh(memory.tokens[place])
    x[tokens:] = ZERO
    for token in range(tokens):
        x[token, :d] = memory.tokens[token * d : (token + 1) * d]
    for layer in range(layers):
        norm_rows(x, blocks.norm[layer, 0], blocks.norm[layer, 1], normed)
        block(blocks, layer, w.counts[0], x, normed, normed, memory)
        place = layer + poolings - layers  # a stack pools after the last layer alone
        if place < 0:
            continue
        for token in range(tokens):
            pooled = memory.tokens[token * d : (token + 1) * d]
            if w.token_norm.shape[0]:
                layer_norm(x[token, :d], w.token_norm[place, 0], w.token_norm[place, 1], pooled)
            else:
                pooled[:] = x[token, :d]
        linear(memory.tokens, w.pool_weight[place], w.pool_bias[place], vector)
        layer_norm(vector, w.pool_norm[place, 0], w.pool_norm[place, 1], kept[place])
    linear(memory.scaled, w.state_weight, w.state_bias, kept[poolings])


@njit(**COMPILE)
def newest_step(blocks: Rows, w: Weights, memory: Memory, count: int, action: Single) -> None:
    """Set the network's output for the newest step of the window."""
    layers, _, d = blocks.norm.shape
    window, keys = blocks.visible.shape
    poolings, newest = w.pool_bias.shape[0], min(count, window - 1)
    h, g, normed = space(memory.x, window, d), space(memory.context, window, d), space(memory.normed, window, d)
    pair, seen = space(memory.seen, keys, d), normed
    gather(memory.kept, poolings, count, w.state_time, h)
    for layer in range(layers):
        scale, shift = blocks.norm[layer, 0], blocks.norm[layer, 1]
        if layer < poolings:
            gather(memory.kept, layer, count, w.pooled_time, g)
            if keys == window:
                add(g.ravel(), h.ravel())
        norm_rows(h, scale, shift, normed)
        if keys > window:
            norm_rows(g, scale, shift, g)
            pair[:window], pair[window:keys] = g[:window], normed[:window]
            seen = pair
        if layer < layers - 1:
            block(blocks, layer, w.counts[1], h, normed, seen, memory)
    columns = by_columns(blocks, layers - 1, seen, memory)
    x, vector, mixed = memory.vectors[0, :d], memory.vectors[1, :d], memory.vectors[2, :d]
    inner = memory.vectors[3, : EXPANSION * d]
    x[:] = h[newest, :d]
    linear(normed[newest, :d], w.new_q_weight, w.new_q_bias, mixed)
    attend(mixed, columns, blocks.visible[newest], w.counts[1], memory.share)
    linear(mixed, w.new_project_weight, w.new_project_bias, vector)
    add(vector, x)
    layer_norm(x, w.new_norm[2], w.new_norm[3], vector)
    linear(vector, w.new_expand_weight, w.new_expand_bias, inner)
    gelu(inner)
    linear(inner, w.new_contract_weight, w.new_contract_bias, vector)
    add(vector, x)
    layer_norm(x, w.final_norm[0], w.final_norm[1], vector)
    linear(vector, w.head_weight, w.head_bias, action)


@njit(**COMPILE)
def gather(kept: Single, place: int, count: int, time: Single, y: Single) -> None:
    """Set the rows of y (n, D) to what is kept at `place` of the steps of the window, oldest first, with their time."""
    window, _, d = kept.shape
    oldest = max(count - window + 1, 0)
    y[...] = ZERO
    for row in range(count - oldest + 1):
        old = kept[(oldest + row) % window, place]
        for c in range(d):
            y[row, c] = old[c] + time[row, c]


@njit(**COMPILE)
def block(w: Rows, layer: int, heads: int, x: Single, normed: Single, seen: Single, memory: Memory) -> None:
    """A block on x (n, w), where `normed` is LN(x), and `seen` (keys, w) what its rows attend to, normalised."""
    rows, d = w.visible.shape[0], w.norm.shape[2]
    q, added, inner = space(memory.q, rows, d), space(memory.added, rows, d), space(memory.inner, rows, EXPANSION * d)
    columns = by_columns(w, layer, seen, memory)
    linear_rows(normed, w.q_weight[layer], w.q_bias[layer], q)
    for row in range(rows):
        attend(q[row, :d], columns, w.visible[row], heads, memory.share)
    linear_rows(q, w.project_weight[layer], w.project_bias[layer], added)
    add(added.ravel(), x.ravel())
    norm_rows(x, w.norm[layer, 2], w.norm[layer, 3], normed)
    linear_rows(normed, w.expand_weight[layer], w.expand_bias[layer], inner)
    gelu(inner.ravel())
    linear_rows(inner, w.contract_weight[layer], w.contract_bias[layer], added)
    add(added.ravel(), x.ravel())


@njit(**COMPILE)
def by_columns(w: Rows, layer: int, seen: Single, memory: Memory) -> Single:
    """Keys and values of the rows of `seen`, as columns (2 w, keys)."""
    keys, d = w.visible.shape[1], w.norm.shape[2]
    kv, columns = space(memory.kv, keys, 2 * d), memory.columns[: 2 * d * keys].reshape(2 * d, keys)
    linear_rows(seen, w.kv_weight[layer], w.kv_bias[layer], kv)
    for c in range(2 * d):
        for key in range(keys):
            columns[c, key] = kv[key, c]
    return columns


@njit(**COMPILE)
def attend(q: Single, kv: Single, visible: Single, heads: int, shares: Single) -> None:
    """Replace the queries (w,) of one row by what they find in kv (2 w, keys); shares is to work in."""
    d, keys = q.size, visible.size
    channels, share = d // heads, shares[:keys]
    scale = ONE / np.sqrt(np.float32(channels))
    for first in range(0, d, channels):
        share[:] = visible
        for c in range(first, first + channels):
            query = scale * q[c]
            for key in range(keys):
                share[key] += query * kv[c, key]
        highest, total = share[0], ZERO
        for key in range(keys):
            highest = max(highest, share[key])
        for key in range(keys):
            share[key] = exponential(share[key] - highest)
            total += share[key]
        for c in range(first, first + channels):
            mixed = ZERO
            for key in range(keys):
                mixed += share[key] * kv[d + c, key]
            q[c] = mixed / total


@njit(**COMPILE)
def norm_rows(x: Single, weight: Single, bias: Single, y: Single) -> None:
    """Set the rows of y to those of x, normalised."""
    for row in range(x.shape[0]):
        layer_norm(x[row, : weight.size], weight, bias, y[row, : weight.size])


@njit(**COMPILE)
def space(flat: Single, rows: int, channels: int) -> Single:
    """The beginning of a piece of memory, of rows in whole tiles and channels in whole vectors."""
    rows, channels = -(-rows // TILE) * TILE, -(-channels // LANES) * LANES
    return flat[: rows * channels].reshape(rows, channels)


def numba_step(model: PolicyModel) -> tuple[Any, Model, Memory]:
    """Return the compiled step, the weights and the cleared memory of a model, for CompiledRuntime."""
    config: StarformerConfig = model.card.config
    w, half = fold(model), model.half
    n, d, hidden, tokens = config.window, config.token_width, config.hidden, config.step_tokens
    earlier = np.where(np.tri(n, dtype=np.bool_), 0, EMPTY).astype(np.float32)
    visible = np.concatenate([earlier, earlier], axis=1) if config.connection == "layer_wise" else earlier
    keys = visible.shape[1]
    newest = {f"new_{name}": part[-1] for name, part in _parts(w.sequence).items() if not name.startswith("kv")}
    vectors = {name: getattr(w, name) for name in Weights._fields if hasattr(w, name)} | newest
    vectors |= {name: stored(part, half) for name, part in vectors.items() if name.endswith("_weight")}
    counts = np.array([config.token_heads, config.heads, int(config.reward is not None)])

    def room(expansion: int) -> Single:
        """For all rows of either transformer, of so many times its channels."""
        return np.zeros((max(tokens, keys) + TILE) * whole(expansion * max(d, hidden)), np.float32)

    memory = Memory(
        kept=np.zeros((n, len(w.pool_bias) + 1, hidden), np.float32),
        scaled=np.zeros(config.observation, np.float32),
        tokens=np.zeros(tokens * d, np.float32),
        vectors=np.zeros((4, whole(EXPANSION * hidden)), np.float32),
        share=np.zeros(max(tokens, keys), np.float32),
        x=room(1),
        context=room(1),
        normed=room(1),
        seen=room(1),
        q=room(1),
        kv=room(2),
        columns=room(2),
        inner=room(EXPANSION),
        added=room(1),
    )
    compiled = Model(
        _rows(w.step, np.zeros((tokens, tokens), np.float32), half),
        _rows(w.sequence, visible, half),
        Weights(*packed(list(Weights(counts=counts, new_norm=w.sequence.norm[-1], **vectors)))),
    )
    return step, compiled, Memory(*packed(list(memory)))


def _parts(blocks: Blocks) -> dict[str, Floats]:
    """Matrices and biases of the blocks, by their names in Rows; those of queries apart from keys and values."""
    parts = {name: part for name, part in blocks._asdict().items() if name != "norm"}
    width = blocks.norm.shape[2]
    for kind in ("weight", "bias"):
        qkv = parts.pop(f"qkv_{kind}")
        parts |= {f"q_{kind}": qkv[:, :width], f"kv_{kind}": qkv[:, width:]}
    return parts


def _rows(blocks: Blocks, visible: Single, half: bool) -> Rows:
    parts = {}
    for name, part in _parts(blocks).items():
        missing = ((0, 0), (0, whole(part.shape[1]) - part.shape[1]))
        parts[name] = stored_for_rows(part, half) if name.endswith("weight") else np.pad(part, missing)
    return Rows(*packed(list(Rows(norm=blocks.norm, visible=visible, **parts))))
