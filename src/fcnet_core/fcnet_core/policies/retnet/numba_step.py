"""One robot's retentive network compiled with numba, in the recurrent form: what a robot runs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from fcnet_core.arrays import Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.compiled_layers import (
    COMPILE,
    HALF,
    ONE,
    ZERO,
    StepData,
    add,
    denormalise,
    gelu,
    linear,
    multiply,
    normalise,
    stored,
)
from fcnet_core.policies.retnet.retention import EPSILON
from fcnet_core.policies.retnet.step import Weights, fold
from fcnet_core.policies.simd import packed, whole

NORM_EPSILON = np.float32(EPSILON)
# tanh of x clipped to +-TANH_LIMIT as x P(x^2) / Q(x^2), fitted as the GELU of layers.py and within 3e-7 in float32: a
# loop with it is vectorised, one that calls exp is not.
TANH_LIMIT = np.float32(8.0)
P0, P1, P2, P3, P4 = (
    np.float32(p) for p in (9.9999997e-01, 1.3438188e-01, 3.5641520e-03, 2.1773178e-05, 1.5061715e-08)
)
Q0, Q1, Q2, Q3, Q4 = (np.float32(q) for q in (1.0, 4.6771508e-01, 2.6136000e-02, 3.3991726e-04, 8.4536231e-07))


class Memory(NamedTuple):
    """Everything that changes from step to step, and the work space of a step."""

    state: Single  # (L, H, d_k, d_v)
    scratch: Single  # (4, the largest of observation and 2 d + 2 D)
    inner: Single  # (2 F,): what GELU takes, what that is multiplied by
    rotation: Single  # (2, d_k / 2): cosines and sines of the step's angles
    scale: Single  # (H,): of the step's queries


@njit(cache=True, **COMPILE)
def step(observation: Single, action: Single, count: int, data: StepData) -> bool:
    """Write the action for one observation; return False, with the memory unchanged, if that is not finite."""
    units, w, memory, scratch, inner = data.units, data.weights, data.memory, data.memory.scratch, data.memory.inner
    _, heads, key_width, value_width = memory.state.shape
    d, values, width = heads * key_width, heads * value_width, inner.size // 2
    hidden, normed, retained = scratch[0, :d], scratch[1, :d], scratch[3, :values]
    projected, scaled = scratch[2, : 2 * (d + values)], scratch[3, : observation.size]
    step_constants(count, w, memory)
    if not normalise(observation, units, scaled):
        return False
    linear(scaled, w.encoder_weight, w.encoder_bias, hidden)
    for layer in range(w.norm.shape[0]):
        rms_norm(hidden, w.norm[layer, 0], normed)
        multiply(normed, w.projection[layer], projected)
        q, k, v = projected[:d], projected[d : 2 * d], projected[2 * d : 2 * d + values]
        for h in range(heads):
            keys, part = slice(h * key_width, (h + 1) * key_width), slice(h * value_width, (h + 1) * value_width)
            rotate(q[keys], memory.rotation)
            rotate(k[keys], memory.rotation)
            state, decay = memory.state[layer, h], np.float32(w.decay[h])
            retain(q[keys], k[keys], v[part], memory.scale[h], decay, state, retained[part])
        gate(retained, projected[2 * d + values :])
        multiply(retained, w.output[layer], normed)
        add(normed, hidden)
        rms_norm(hidden, w.norm[layer, 1], normed)
        multiply(normed, w.ffn_in[layer], inner)
        gelu(inner[:width])
        for c in range(width):
            inner[c] *= inner[width + c]
        multiply(inner[:width], w.ffn_out[layer], normed)
        add(normed, hidden)
    rms_norm(hidden, w.final_norm, normed)
    linear(normed, w.decoder_weight, w.decoder_bias, action)
    denormalise(action, units)
    return True


@njit(**COMPILE)
def step_constants(count: int, weights: Weights, memory: Memory) -> None:
    """Rotation and scale of step `count`, worked out in float64: its angle exceeds what float32 resolves."""
    for j in range(weights.angle.size):
        angle = np.float64(count) * weights.angle[j]
        memory.rotation[0, j] = np.cos(angle)
        memory.rotation[1, j] = np.sin(angle)
    for h in range(weights.decay.size):
        decay = weights.decay[h]
        number = (1.0 - decay ** np.float64(count + 1)) / (1.0 - decay)
        memory.scale[h] = 1.0 / np.sqrt(2 * weights.angle.size * number)


@njit(**COMPILE)
def rms_norm(x: Single, weight: Single, y: Single) -> None:
    """Set y to x over its root mean square, times weight."""
    total = ZERO
    for c in range(x.size):
        total += x[c] * x[c]
    scale = ONE / np.sqrt(total / np.float32(x.size) + NORM_EPSILON)
    for c in range(x.size):
        y[c] = x[c] * scale * weight[c]


@njit(**COMPILE)
def rotate(x: Single, rotation: Single) -> None:
    """Turn x (d_k,), first entries of all pairs before the second ones, in place."""
    half = rotation.shape[1]
    for j in range(half):
        first, second, cosine, sine = x[j], x[half + j], rotation[0, j], rotation[1, j]
        x[j] = first * cosine - second * sine
        x[half + j] = second * cosine + first * sine


@njit(**COMPILE)
def retain(q: Single, k: Single, v: Single, scale: float, decay: float, state: Single, y: Single) -> None:
    """S <- decay S + k v^T, and y = scale q S over its root mean square."""
    for c in range(v.size):
        y[c] = ZERO
    for j in range(q.size):
        query, key = scale * q[j], k[j]
        for c in range(v.size):
            kept = decay * state[j, c] + key * v[c]
            state[j, c] = kept
            y[c] += query * kept
    total = ZERO
    for c in range(v.size):
        total += y[c] * y[c]
    factor = ONE / np.sqrt(total / np.float32(v.size) + NORM_EPSILON)
    for c in range(v.size):
        y[c] *= factor


@njit(**COMPILE)
def gate(y: Single, gates: Single) -> None:
    """Multiply y by the SiLU of gates, x / (1 + exp(-x)) = h (1 + tanh(h)) with h = x / 2."""
    for c in range(y.size):
        half = HALF * gates[c]
        x = min(max(half, -TANH_LIMIT), TANH_LIMIT)
        z = x * x
        numerator = x * (P0 + z * (P1 + z * (P2 + z * (P3 + z * P4))))
        denominator = Q0 + z * (Q1 + z * (Q2 + z * (Q3 + z * Q4)))
        y[c] *= half * (ONE + numerator / denominator)


def numba_step(model: PolicyModel) -> tuple[Any, Weights, Memory]:
    """Return the compiled step, the weights and the cleared memory of a model, for CompiledRuntime."""
    config, weights = model.card.config, fold(model)
    widest = whole(max(config.observation, 2 * (config.hidden + config.value_width)))
    heads, key_width, _ = config.state_shape
    memory = Memory(
        state=np.zeros((config.layers, *config.state_shape), dtype=np.float32),
        scratch=np.zeros((4, widest), dtype=np.float32),
        inner=np.zeros(2 * config.ffn_width, dtype=np.float32),
        rotation=np.zeros((2, key_width // 2), dtype=np.float32),
        scale=np.zeros(heads, dtype=np.float32),
    )
    matrices = ("encoder_weight", "projection", "output", "ffn_in", "ffn_out", "decoder_weight")
    weights = weights._replace(**{name: stored(getattr(weights, name), model.half) for name in matrices})
    return step, Weights(*packed(list(weights))), Memory(*packed(list(memory)))
