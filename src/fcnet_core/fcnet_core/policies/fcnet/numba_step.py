"""The step compiled with numba, the default on a robot.

Weights are float32; the spectral state is float64, because in float32 its error grows with time.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from fcnet_core.arrays import Array, Floats, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies import compiled_layers as layers
from fcnet_core.policies.compile_cache import cached_njit
from fcnet_core.policies.compiled_layers import CompiledRuntime, Counts, StepData
from fcnet_core.policies.fcnet.spectral import folded_weights, phase_table
from fcnet_core.policies.normalisation import Units


class Weights(NamedTuple):
    """A policy's weights, stacked by layer, with the spectral weights folded.

    Arrays of L layers with d channels, m modes and window n; linear weights are (outputs, inputs).
    Folding W into v leaves 603,532 of the 787,852 numbers of the legged configuration.
    """

    encoder_weight: Floats  # (d, observation)
    encoder_bias: Floats  # (d,)
    norm: Floats  # (L, 4, d): weight and bias of ln1, weight and bias of ln2
    rotation: Array  # (2, m): real and imaginary parts of u_k
    spectral_weight: Floats  # (L, 2, m, d): real and imaginary parts of v
    ffn_weight: Floats  # (L, 2, d, d)
    ffn_bias: Floats  # (L, 2, d)
    decoder_weight: Floats  # (decoder_hidden, d)
    decoder_bias: Floats  # (decoder_hidden,)
    output_weight: Floats  # (action, decoder_hidden)
    output_bias: Floats  # (action,)


def fold(model: PolicyModel) -> Weights:
    """Stack and fold the weights of a model, in float32; those of the Sliding DFT in float64."""
    config = model.card.config
    weights = {name: weight.astype(np.float32, copy=False) for name, weight in model.weights.items()}

    def stacked(*names: str) -> Floats:
        prefixes = [f"fourier_layers.{layer}." for layer in range(config.layers)]
        return np.stack([np.stack([weights[prefix + name] for name in names]) for prefix in prefixes])

    rotation = phase_table(config.window, config.modes)[:, 0]
    folded = folded_weights(stacked("csc.weights")[:, 0], config.window)
    return Weights(
        encoder_weight=weights["fc0.weight"],
        encoder_bias=weights["fc0.bias"],
        norm=stacked("ln1.weight", "ln1.bias", "ln2.weight", "ln2.bias"),
        rotation=np.stack([rotation.real, rotation.imag]),
        spectral_weight=np.stack([folded.real, folded.imag], axis=1),
        ffn_weight=stacked("ffn.fc1.weight", "ffn.fc2.weight"),
        ffn_bias=stacked("ffn.fc1.bias", "ffn.fc2.bias"),
        decoder_weight=weights["fc1.weight"],
        decoder_bias=weights["fc1.bias"],
        output_weight=weights["fc2.weight"],
        output_bias=weights["fc2.bias"],
    )


class Memory(NamedTuple):
    """The memory of B robots."""

    inputs: Single  # (B, L, n, d): ring of what entered each spectral convolution
    spectrum: Array  # (B, L, 2, m, d): real and imaginary parts of X


class Scratch(NamedTuple):
    """The work space of a step."""

    vectors: Single  # (4, the largest of observation, d and decoder_hidden)
    sums: Array  # (2, d): of slide_spectrum


@cached_njit(**layers.COMPILE)
def steps(observation: Single, action: Single, counts: Counts, data: StepData) -> bool:
    """Make a step of each robot, see CompiledRuntime."""
    memory = data.memory
    for robot in range(counts.size):
        seen, target, own = observation[robot], action[robot], Memory(memory.inputs[robot], memory.spectrum[robot])
        if not step(seen, target, counts[robot], data.units, data.weights, own, data.scratch):
            return False
        counts[robot] += 1
    return True


@njit(**layers.COMPILE)
def step(
    observation: Single, action: Single, count: int, units: Units, w: Weights, memory: Memory, work: Scratch
) -> bool:
    """Write the action for one observation; return False, with the memory unchanged, if that is not finite."""
    scratch, d = work.vectors, w.encoder_bias.size
    slot = count % memory.inputs.shape[1]  # the place of the oldest inputs
    hidden, normed, inner, scaled = scratch[0, :d], scratch[1, :d], scratch[2, :d], scratch[3, : observation.size]
    if not layers.normalise(observation, units, scaled):
        return False
    for layer in range(w.norm.shape[0]):
        for c in range(0, d, layers.PANEL):
            layers.fetch(memory.inputs[layer, slot], c)  # last used n steps ago
    layers.linear(scaled, w.encoder_weight, w.encoder_bias, hidden)
    for layer in range(w.norm.shape[0]):
        norm = w.norm[layer]
        layers.layer_norm(hidden, norm[0], norm[1], normed)
        oldest = memory.inputs[layer, slot]
        slide_spectrum(normed, oldest, memory.spectrum[layer], w.rotation, w.spectral_weight[layer], work.sums, inner)
        layers.gelu(inner)
        layers.add(inner, hidden)
        layers.layer_norm(hidden, norm[2], norm[3], normed)
        layers.linear(normed, w.ffn_weight[layer, 0], w.ffn_bias[layer, 0], inner)
        layers.gelu(inner)
        layers.linear(inner, w.ffn_weight[layer, 1], w.ffn_bias[layer, 1], normed)
        layers.add(normed, hidden)
    decoded = scratch[2, : w.decoder_bias.size]
    layers.linear(hidden, w.decoder_weight, w.decoder_bias, decoded)
    layers.gelu(decoded)
    layers.linear(decoded, w.output_weight, w.output_bias, action)
    layers.denormalise(action, units)
    return True


@njit(**layers.COMPILE)
def slide_spectrum(
    x: Single, oldest: Single, spectrum: Array, rotation: Array, weight: Single, work: Array, y: Single
) -> None:
    """X_k <- u_k (X_k + x - oldest) and y = Re sum_k v_k X_k; x takes the place of the oldest input."""
    change, total = work[0], work[1]
    for c in range(x.size):
        total[c] = 0.0
        change[c] = np.float64(x[c]) - np.float64(oldest[c])
        oldest[c] = x[c]
    for k in range(rotation.shape[1]):
        cosine, sine = rotation[0, k], rotation[1, k]
        real, imaginary, for_real, for_imaginary = spectrum[0, k], spectrum[1, k], weight[0, k], weight[1, k]
        for c in range(x.size):
            here, there = real[c] + change[c], imaginary[c]
            turned, across = cosine * here - sine * there, sine * here + cosine * there
            real[c], imaginary[c] = turned, across
            total[c] += for_real[c] * turned - for_imaginary[c] * across
    for c in range(x.size):
        y[c] = total[c]


def numba_step(model: PolicyModel, batch: int | None) -> CompiledRuntime:
    """Return the compiled step of a model for one robot or for `batch`."""
    config, weights, robots = model.card.config, fold(model), batch or 1
    inputs = np.zeros((robots, config.layers, config.window, config.hidden), dtype=np.float32)
    memory = Memory(inputs, np.zeros((robots, config.layers, 2, config.modes, config.hidden)))
    matrices = ("encoder_weight", "ffn_weight", "decoder_weight", "output_weight")
    weights = weights._replace(**{name: layers.stored(getattr(weights, name), model.half) for name in matrices})
    widest = max(config.observation, config.hidden, config.decoder_hidden)
    scratch = Scratch(np.zeros((4, widest), dtype=np.float32), np.zeros((2, config.hidden)))
    return CompiledRuntime(model, batch, steps, weights, memory, scratch)
