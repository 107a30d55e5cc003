"""One robot's policy compiled with numba, the default on a robot.

Weights are float32; the spectral state is float64, because in float32 its error grows with time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from fcnet_core.arrays import Array, Floats, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.compiled_layers import (
    COMPILE,
    ZERO,
    StepData,
    add,
    denormalise,
    gelu,
    layer_norm,
    linear,
    normalise,
    stored,
)
from fcnet_core.policies.fcnet.step import Weights, fold
from fcnet_core.policies.simd import LANES, fetch, load, narrowed, packed, spread, store, whole, widened


class Memory(NamedTuple):
    """Everything that changes from step to step, and the work space of a step."""

    inputs: Single  # (L, n, d): ring of what entered each spectral convolution
    spectrum: Array  # (L, d / LANES, m, 2, LANES): real and imaginary parts of X
    scratch: Single  # (4, the largest of observation, d and decoder_hidden)


@njit(cache=True, **COMPILE)
def step(observation: Single, action: Single, count: int, data: StepData) -> bool:
    """Write the action for one observation; return False, with the memory unchanged, if that is not finite."""
    units, w, memory, scratch = data.units, data.weights, data.memory, data.memory.scratch
    d, slot = w.encoder_bias.size, count % memory.inputs.shape[1]  # the place of the oldest inputs
    hidden, normed, inner, scaled = scratch[0, :d], scratch[1, :d], scratch[2, :d], scratch[3, : observation.size]
    if not normalise(observation, units, scaled):
        return False
    for layer in range(w.norm.shape[0]):
        for c in range(0, d, LANES):
            fetch(memory.inputs[layer, slot], c, LANES)  # last used n steps ago
    linear(scaled, w.encoder_weight, w.encoder_bias, hidden)
    for layer in range(w.norm.shape[0]):
        norm = w.norm[layer]
        layer_norm(hidden, norm[0], norm[1], normed)
        oldest = memory.inputs[layer, slot]
        slide_spectrum(normed, oldest, memory.spectrum[layer], w.rotation, w.spectral_weight[layer], inner)
        gelu(inner)
        add(inner, hidden)
        layer_norm(hidden, norm[2], norm[3], normed)
        linear(normed, w.ffn_weight[layer, 0], w.ffn_bias[layer, 0], inner)
        gelu(inner)
        linear(inner, w.ffn_weight[layer, 1], w.ffn_bias[layer, 1], normed)
        add(normed, hidden)
    decoded = scratch[2, : w.decoder_bias.size]
    linear(hidden, w.decoder_weight, w.decoder_bias, decoded)
    gelu(decoded)
    linear(decoded, w.output_weight, w.output_bias, action)
    denormalise(action, units)
    return True


@njit(**COMPILE)
def slide_spectrum(x: Single, oldest: Single, spectrum: Array, rotation: Array, weight: Single, y: Single) -> None:
    """X_k <- u_k (X_k + x - oldest) and y = Re sum_k v_k X_k; x takes the place of the oldest input."""
    place = 0
    for c in range(0, x.size, LANES):
        newest = load(x, c)
        change = widened(newest) - widened(load(oldest, c))
        store(newest, oldest, c)
        total = spread(ZERO)
        for k in range(rotation.shape[1]):
            cosine, sine = spread(rotation[0, k]), spread(rotation[1, k])
            real, imaginary = load(spectrum, place) + change, load(spectrum, place + LANES)
            turned = cosine * real - sine * imaginary
            imaginary = sine * real + cosine * imaginary
            store(turned, spectrum, place)
            store(imaginary, spectrum, place + LANES)
            total += load(weight, place) * narrowed(turned)
            total -= load(weight, place + LANES) * narrowed(imaginary)
            place += 2 * LANES
        store(total, y, c)


def by_lanes(spectral: Floats) -> Single:
    """Spectral weights (L, 2, m, d) as the spectrum lies in memory, float32, beyond d zeros."""
    layers, _, modes, channels = spectral.shape
    filled = np.zeros((layers, 2, modes, whole(channels)), dtype=np.float32)
    filled[..., :channels] = spectral
    return np.ascontiguousarray(filled.reshape(layers, 2, modes, -1, LANES).transpose(0, 3, 2, 1, 4))


def numba_step(model: PolicyModel) -> tuple[Any, Weights, Memory]:
    """Return the compiled step, the weights and the cleared memory of a model, for CompiledRuntime."""
    config, weights = model.card.config, fold(model)
    width, widest = whole(config.hidden), whole(max(config.observation, config.hidden, config.decoder_hidden))
    memory = Memory(
        inputs=np.zeros((config.layers, config.window, width), dtype=np.float32),
        spectrum=np.zeros((config.layers, width // LANES, config.modes, 2, LANES)),
        scratch=np.zeros((4, widest), dtype=np.float32),
    )
    weights = weights._replace(spectral_weight=by_lanes(weights.spectral_weight))
    matrices = ("encoder_weight", "ffn_weight", "decoder_weight", "output_weight")
    weights = weights._replace(**{name: stored(getattr(weights, name), model.half) for name in matrices})
    return step, Weights(*packed(list(weights))), Memory(*packed(list(memory)))
