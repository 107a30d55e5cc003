"""One robot's Transformer compiled with numba, the default on a robot."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from fcnet_core.arrays import Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.compiled_layers import (
    COMPILE,
    ONE,
    ZERO,
    StepData,
    add,
    denormalise,
    exponential,
    gelu_tanh,
    layer_norm,
    linear,
    normalise,
    stored,
)
from fcnet_core.policies.simd import packed, whole
from fcnet_core.policies.transformer.step import Weights, fold


class Memory(NamedTuple):
    """Rings of keys and values, in which those of a step are a column, and the work space of a step."""

    ring: Single  # (L, 2, d, n): keys, values
    shares: Single  # (H, n): of the steps in the ring
    scratch: Single  # (5, the largest of observation and 4 d)


@njit(cache=True, **COMPILE)
def step(observation: Single, action: Single, count: int, data: StepData) -> bool:
    """Write the action for one observation; return False, with the memory unchanged, if that is not finite."""
    units, w, memory, scratch = data.units, data.weights, data.memory, data.memory.scratch
    d = w.embed_bias.size
    hidden, normed, mixed = scratch[0, :d], scratch[1, :d], scratch[2, :d]
    qkv, inner, scaled = scratch[3, : 3 * d], scratch[4, : w.expand_bias.shape[1]], scratch[4, : observation.size]
    if not normalise(observation, units, scaled):
        return False
    linear(scaled, w.embed_weight, w.embed_bias, normed)
    layer_norm(normed, w.embed_norm[0], w.embed_norm[1], hidden)
    for layer in range(w.norm.shape[0]):
        norm = w.norm[layer]
        layer_norm(hidden, norm[0], norm[1], normed)
        linear(normed, w.qkv_weight[layer], w.qkv_bias[layer], qkv)
        attend(qkv, memory.ring[layer], count, memory.shares, mixed)
        linear(mixed, w.project_weight[layer], w.project_bias[layer], normed)
        add(normed, hidden)
        layer_norm(hidden, norm[2], norm[3], normed)
        linear(normed, w.expand_weight[layer], w.expand_bias[layer], inner)
        gelu_tanh(inner)
        linear(inner, w.contract_weight[layer], w.contract_bias[layer], normed)
        add(normed, hidden)
    layer_norm(hidden, w.final_norm[0], w.final_norm[1], normed)
    linear(normed, w.head_weight, w.head_bias, action)
    denormalise(action, units)
    return True


@njit(**COMPILE)
def attend(qkv: Single, ring: Single, count: int, shares: Single, y: Single) -> None:
    """Put keys and values of this step into the ring (2, d, n), and set y (d,) to what its queries find there.

    count: steps since the reset. There are no positions, so that the order of the ring does not matter.
    """
    keys, values = ring[0], ring[1]
    channels, window = keys.shape
    width = channels // shares.shape[0]
    scale = ONE / np.sqrt(np.float32(width))
    slot, filled = count % window, min(count + 1, window)
    for c in range(channels):
        keys[c, slot] = qkv[channels + c]
        values[c, slot] = qkv[2 * channels + c]
    for head in range(shares.shape[0]):
        share = shares[head]
        for t in range(filled):
            share[t] = ZERO
        for c in range(head * width, (head + 1) * width):
            query = scale * qkv[c]
            for t in range(filled):
                share[t] += query * keys[c, t]
        highest, total = share[0], ZERO
        for t in range(filled):
            highest = max(highest, share[t])
        for t in range(filled):
            share[t] = exponential(share[t] - highest)
            total += share[t]
        for c in range(head * width, (head + 1) * width):
            mixed = ZERO
            for t in range(filled):
                mixed += share[t] * values[c, t]
            y[c] = mixed / total


def numba_step(model: PolicyModel) -> tuple[Any, Weights, Memory]:
    """Return the compiled step, the weights and the cleared memory of a model, for CompiledRuntime."""
    config, weights = model.card.config, fold(model)
    memory = Memory(
        ring=np.zeros((config.layers, 2, config.hidden, config.window), dtype=np.float32),
        shares=np.zeros((config.heads, config.window), dtype=np.float32),
        scratch=np.zeros((5, whole(max(config.observation, weights.expand_bias.shape[1]))), dtype=np.float32),
    )
    matrices = [f"{name}_weight" for name in ("embed", "qkv", "project", "expand", "contract", "head")]
    weights = weights._replace(**{name: stored(getattr(weights, name), model.half) for name in matrices})
    return step, Weights(*packed(list(weights))), Memory(*packed(list(memory)))
