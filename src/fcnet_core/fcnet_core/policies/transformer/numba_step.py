"""The step compiled with numba, the default on a robot."""

from typing import NamedTuple

import numpy as np
from numba import njit

from fcnet_core.arrays import Floats, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies import compiled_layers as layers
from fcnet_core.policies.compile_cache import cached_njit
from fcnet_core.policies.compiled_layers import CompiledRuntime, Counts, StepData
from fcnet_core.policies.normalisation import Units


class Weights(NamedTuple):
    """A policy's weights, stacked by layer, for L layers with d channels and H heads.

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


def fold(model: PolicyModel) -> Weights:
    """Stack the weights of a model, in float32."""
    weights = {name: weight.astype(np.float32, copy=False) for name, weight in model.weights.items()}

    def by_layer(name: str) -> Floats:
        return np.stack([weights[f"stack.layers.{layer}.{name}"] for layer in range(model.card.config.layers)])

    def norm(name: str) -> Floats:
        return np.stack([weights[f"{name}.weight"], weights[f"{name}.bias"]])

    norms = [by_layer(name) for name in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias")]
    linear = [f"{name}.{part}" for name in ("qkv", "project", "expand", "contract") for part in ("weight", "bias")]
    return Weights(
        embed_weight=weights["embed.weight"],
        embed_bias=weights["embed.bias"],
        embed_norm=norm("embed_norm"),
        norm=np.stack(norms, axis=1),
        final_norm=norm("stack.norm"),
        head_weight=weights["head.weight"],
        head_bias=weights["head.bias"],
        **{name.replace(".", "_"): by_layer(name) for name in linear},
    )


class Memory(NamedTuple):
    """The memory of B robots: rings of keys and values, in which those of a step are a column."""

    ring: Single  # (B, L, 2, d, n): keys, values


class Scratch(NamedTuple):
    """The work space of a step."""

    shares: Single  # (H, n): of the steps in the ring
    vectors: Single  # (5, the largest of observation and 4 d)


@cached_njit(**layers.COMPILE)
def steps(observation: Single, action: Single, counts: Counts, data: StepData) -> bool:
    """Make a step of each robot, see CompiledRuntime."""
    for robot in range(counts.size):
        seen, target, ring = observation[robot], action[robot], data.memory.ring[robot]
        if not step(seen, target, counts[robot], data.units, data.weights, ring, data.scratch):
            return False
        counts[robot] += 1
    return True


@njit(**layers.COMPILE)
def step(
    observation: Single, action: Single, count: int, units: Units, w: Weights, ring: Single, work: Scratch
) -> bool:
    """Write the action for one observation; return False, with the memory unchanged, if that is not finite."""
    d, scratch = w.embed_bias.size, work.vectors
    hidden, normed, mixed = scratch[0, :d], scratch[1, :d], scratch[2, :d]
    qkv, inner, scaled = scratch[3, : 3 * d], scratch[4, : w.expand_bias.shape[1]], scratch[4, : observation.size]
    if not layers.normalise(observation, units, scaled):
        return False
    layers.linear(scaled, w.embed_weight, w.embed_bias, normed)
    layers.layer_norm(normed, w.embed_norm[0], w.embed_norm[1], hidden)
    for layer in range(w.norm.shape[0]):
        norm = w.norm[layer]
        layers.layer_norm(hidden, norm[0], norm[1], normed)
        layers.linear(normed, w.qkv_weight[layer], w.qkv_bias[layer], qkv)
        attend(qkv, ring[layer], count, work.shares, mixed)
        layers.linear(mixed, w.project_weight[layer], w.project_bias[layer], normed)
        layers.add(normed, hidden)
        layers.layer_norm(hidden, norm[2], norm[3], normed)
        layers.linear(normed, w.expand_weight[layer], w.expand_bias[layer], inner)
        layers.gelu_tanh(inner)
        layers.linear(inner, w.contract_weight[layer], w.contract_bias[layer], normed)
        layers.add(normed, hidden)
    layers.layer_norm(hidden, w.final_norm[0], w.final_norm[1], normed)
    layers.linear(normed, w.head_weight, w.head_bias, action)
    layers.denormalise(action, units)
    return True


@njit(**layers.COMPILE)
def attend(qkv: Single, ring: Single, count: int, shares: Single, y: Single) -> None:
    """Put keys and values of this step into the ring (2, d, n), and set y (d,) to what its queries find there.

    count: steps since the reset. There are no positions, so that the order of the ring does not matter.
    """
    keys, values = ring[0], ring[1]
    channels, window = keys.shape
    width = channels // shares.shape[0]
    scale = layers.ONE / np.sqrt(np.float32(width))
    slot, filled = count % window, min(count + 1, window)
    for c in range(channels):
        keys[c, slot] = qkv[channels + c]
        values[c, slot] = qkv[2 * channels + c]
    for head in range(shares.shape[0]):
        share = shares[head]
        for t in range(filled):
            share[t] = layers.ZERO
        for c in range(head * width, (head + 1) * width):
            query = scale * qkv[c]
            for t in range(filled):
                share[t] += query * keys[c, t]
        highest, total = share[0], layers.ZERO
        for t in range(filled):
            highest = max(highest, share[t])
        for t in range(filled):
            share[t] = layers.exponential(share[t] - highest)
            total += share[t]
        for c in range(head * width, (head + 1) * width):
            mixed = layers.ZERO
            for t in range(filled):
                mixed += share[t] * values[c, t]
            y[c] = mixed / total


def numba_step(model: PolicyModel, batch: int | None) -> CompiledRuntime:
    """Return the compiled step of a model for one robot or for `batch`."""
    config, weights = model.card.config, fold(model)
    memory = Memory(np.zeros((batch or 1, config.layers, 2, config.hidden, config.window), dtype=np.float32))
    widest = max(config.observation, weights.expand_bias.shape[1])
    scratch = Scratch(np.zeros((config.heads, config.window), np.float32), np.zeros((5, widest), np.float32))
    matrices = [f"{name}_weight" for name in ("embed", "qkv", "project", "expand", "contract", "head")]
    weights = weights._replace(**{name: layers.stored(getattr(weights, name), model.half) for name in matrices})
    return CompiledRuntime(model, batch, steps, weights, memory, scratch)
