"""One robot's policy compiled with numba: what a robot runs.

Weights are float32; the spectral state is float64, because in float32 its error grows with time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.compiled_layers import COMPILE, ZERO, add_gelu, add_linear, gelu, layer_norm, linear, normalise
from fcnet_core.policies.fcnet.config import phase_table
from fcnet_core.policies.fcnet.numpy_step import FoldedNetwork, Form, fold


class Parameters(NamedTuple):
    """Everything constant, see FoldedNetwork and normalisation.py for meaning and shapes."""

    observation_mean: Single
    observation_std: Single
    observation_clip: np.float32
    action_mean: Single
    action_scale: Single
    encoder_weight: Single
    encoder_bias: Single
    norm: Single
    ffn_weight: Single
    ffn_bias: Single
    decoder_weight: Single
    decoder_bias: Single
    output_weight: Single
    output_bias: Single
    rotation: Array  # (2, m): real and imaginary parts of u_k
    spectral_weight: Single  # (L, 2, m, d): real and imaginary parts of v
    kernels: Single  # (L, n, d), oldest first; (0, 0, 0) selects the Sliding DFT


class Memory(NamedTuple):
    """Everything that changes from step to step, and the space a step works in."""

    inputs: Single  # (L, n, d): ring of what entered each spectral convolution
    spectrum: Array  # (L, 2, m, d): real and imaginary parts of X
    scratch: Single  # (4, the largest of observation, d and decoder_hidden)


@njit(**COMPILE)
def step(observation: Single, action: Single, slot: int, parameters: Parameters, memory: Memory) -> None:
    """Write the joint targets for one observation to `action`; `slot` is the place of the oldest inputs."""
    p = parameters
    d, layers = p.encoder_bias.size, p.norm.shape[0]
    hidden, normed = memory.scratch[0, :d], memory.scratch[1, :d]
    inner, scaled = memory.scratch[2], memory.scratch[3, : observation.size]
    normalise(observation, p.observation_mean, p.observation_std, p.observation_clip, scaled)
    linear(scaled, p.encoder_weight, p.encoder_bias, hidden)
    for layer in range(layers):
        norm = p.norm[layer]
        layer_norm(hidden, norm[0], norm[1], normed)
        if p.kernels.size:
            filter_inputs(normed, slot, memory.inputs[layer], p.kernels[layer], inner[:d])
        else:
            slide_spectrum(
                normed, memory.inputs[layer, slot], memory.spectrum[layer], p.rotation, p.spectral_weight[layer], inner
            )
        add_gelu(inner, hidden)
        layer_norm(hidden, norm[2], norm[3], normed)
        linear(normed, p.ffn_weight[layer, 0], p.ffn_bias[layer, 0], inner[:d])
        gelu(inner[:d])
        add_linear(inner[:d], p.ffn_weight[layer, 1], p.ffn_bias[layer, 1], hidden)
    decoded = inner[: p.decoder_bias.size]
    linear(hidden, p.decoder_weight, p.decoder_bias, decoded)
    gelu(decoded)
    linear(decoded, p.output_weight, p.output_bias, action)
    for i in range(action.size):
        action[i] = p.action_mean[i] + p.action_scale[i] * action[i]


@njit(**COMPILE)
def slide_spectrum(x: Single, oldest: Single, spectrum: Array, rotation: Array, weight: Single, y: Single) -> None:
    """X_k <- u_k (X_k + x - oldest) and y = Re sum_k v_k X_k; x takes the place of the oldest input."""
    for c in range(x.size):
        y[c] = ZERO
    for k in range(rotation.shape[1]):
        cosine, sine = rotation[0, k], rotation[1, k]
        for c in range(x.size):
            real = spectrum[0, k, c] + (np.float64(x[c]) - np.float64(oldest[c]))
            imaginary = spectrum[1, k, c]
            turned = cosine * real - sine * imaginary
            imaginary = sine * real + cosine * imaginary
            spectrum[0, k, c] = turned
            spectrum[1, k, c] = imaginary
            y[c] += weight[0, k, c] * np.float32(turned) - weight[1, k, c] * np.float32(imaginary)
    oldest[:] = x


@njit(**COMPILE)
def filter_inputs(x: Single, slot: int, inputs: Single, kernel: Single, y: Single) -> None:
    """Set y to the sum of kernel times inputs over the window, after x has taken the oldest input's place."""
    inputs[slot] = x
    y[:] = ZERO
    window = inputs.shape[0]
    for age in range(window):
        row = slot + 1 + age
        row = row - window if row >= window else row
        for c in range(x.size):
            y[c] += kernel[age, c] * inputs[row, c]


class NumbaStep:
    """A Runtime of one robot that releases the GIL while it steps.

    Making one compiles the step, some seconds the first time on a machine and cached after that.
    """

    def __init__(self, model: PolicyModel, form: Form = "sdft") -> None:
        network = fold(model)
        self._config = network.config
        self._parameters = _parameters(model, network, form)
        self.memory = _memory(network)
        self._slot = 0
        self.step(np.zeros(self._config.observation, dtype=np.float32))
        self.reset()

    def reset(self, mask: Mask | None = None) -> None:
        """See Runtime."""
        self.memory.inputs[:] = 0
        self.memory.spectrum[:] = 0
        self._slot = 0

    def step(self, observation: Single) -> Single:
        """See Runtime."""
        action = np.empty(self._config.action, dtype=np.float32)
        step(observation, action, self._slot, self._parameters, self.memory)
        self._slot = (self._slot + 1) % self._config.window
        return action


def _parameters(model: PolicyModel, network: FoldedNetwork, form: Form) -> Parameters:
    rotation = phase_table(network.config.window, network.config.modes)[:, 0]
    kernels = network.kernels[:, ::-1] if form == "fir" else np.zeros((0, 0, 0), dtype=np.float32)
    return Parameters(
        **model.normalisation.scales,
        observation_clip=np.float32(model.normalisation.clip),
        encoder_weight=network.encoder_weight,
        encoder_bias=network.encoder_bias,
        norm=network.norm,
        ffn_weight=network.ffn_weight,
        ffn_bias=network.ffn_bias,
        decoder_weight=network.decoder_weight,
        decoder_bias=network.decoder_bias,
        output_weight=network.output_weight,
        output_bias=network.output_bias,
        rotation=np.stack([rotation.real, rotation.imag]),
        spectral_weight=np.stack([network.spectral_weight.real, network.spectral_weight.imag], 1).astype(np.float32),
        kernels=np.ascontiguousarray(kernels),
    )


def _memory(network: FoldedNetwork) -> Memory:
    shape = network.config
    widest = max(shape.observation, shape.hidden, shape.decoder_hidden)
    return Memory(
        inputs=np.zeros((shape.layers, shape.window, shape.hidden), dtype=np.float32),
        spectrum=np.zeros((shape.layers, 2, shape.modes, shape.hidden), dtype=np.float64),
        scratch=np.zeros((4, widest), dtype=np.float32),
    )
