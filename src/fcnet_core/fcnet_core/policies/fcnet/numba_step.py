"""One robot's policy compiled with numba: what a robot runs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import finite_observation
from fcnet_core.policies.fcnet import config as spectral
from fcnet_core.policies.fcnet.numpy_step import DENOMINATOR, LIMIT, NUMERATOR, FoldedNetwork, Form, WindowCounter, fold

# One step of the network, compiled: no Python object is touched, so the GIL is free while it runs.
#
# Weights are float32 and read once, in order, which is what the time goes into; the spectral state is float64,
# because in float32 its error grows with time. Sums may be reordered, but NaN and infinity keep their meaning.

Array = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]

P0, P1, P2, P3, P4, P5 = NUMERATOR
Q0, Q1, Q2, Q3, Q4, Q5 = DENOMINATOR
ZERO, HALF, ONE, EPSILON = np.float32(0), np.float32(0.5), np.float32(1), np.float32(1e-5)
COMPILE: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
}


class Parameters(NamedTuple):
    """Everything constant, see FoldedNetwork and normalization.py for meaning and shapes."""

    observation_mean: Array
    observation_std: Array
    observation_clip: np.float32
    action_mean: Array
    action_scale: Array
    encoder_weight: Array
    encoder_bias: Array
    norm: Array
    ffn_weight: Array
    ffn_bias: Array
    decoder_weight: Array
    decoder_bias: Array
    output_weight: Array
    output_bias: Array
    rotation: Double  # (2, m): real and imaginary parts of u_k
    spectral_weight: Array  # (L, 2, m, d): real and imaginary parts of v
    kernels: Array  # (L, n, d), oldest first; (0, 0, 0) selects the Sliding DFT


class Memory(NamedTuple):
    """Everything that changes from step to step, and the space a step works in."""

    inputs: Array  # (L, n, d): ring of what entered each spectral convolution
    spectrum: Double  # (L, 2, m, d): real and imaginary parts of X
    scratch: Array  # (4, the largest of observation, d and decoder_hidden)


@njit(**COMPILE)
def step(observation: Array, action: Array, slot: int, parameters: Parameters, memory: Memory) -> None:
    """Write the joint targets for one observation to `action`; `slot` is the place of the oldest inputs."""
    p = parameters
    d, layers = p.encoder_bias.size, p.norm.shape[0]
    hidden, normed = memory.scratch[0, :d], memory.scratch[1, :d]
    inner, scaled = memory.scratch[2], memory.scratch[3, : observation.size]
    for i in range(observation.size):
        value = (observation[i] - p.observation_mean[i]) / p.observation_std[i]
        scaled[i] = min(max(value, -p.observation_clip), p.observation_clip)
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
def slide_spectrum(x: Array, oldest: Array, spectrum: Double, rotation: Double, weight: Array, y: Array) -> None:
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
def filter_inputs(x: Array, slot: int, inputs: Array, kernel: Array, y: Array) -> None:
    """Set y to the sum of kernel times inputs over the window, after x has taken the oldest input's place."""
    inputs[slot] = x
    y[:] = ZERO
    window = inputs.shape[0]
    for age in range(window):
        row = slot + 1 + age
        row = row - window if row >= window else row
        for c in range(x.size):
            y[c] += kernel[age, c] * inputs[row, c]


@njit(**COMPILE)
def linear(x: Array, weight: Array, bias: Array, y: Array) -> None:
    """Set y to weight x + bias."""
    for row in range(bias.size):
        total = ZERO
        for column in range(x.size):
            total += weight[row, column] * x[column]
        y[row] = total + bias[row]


@njit(**COMPILE)
def add_linear(x: Array, weight: Array, bias: Array, y: Array) -> None:
    """Add weight x + bias to y."""
    for row in range(bias.size):
        total = ZERO
        for column in range(x.size):
            total += weight[row, column] * x[column]
        y[row] += total + bias[row]


@njit(**COMPILE)
def layer_norm(x: Array, weight: Array, bias: Array, y: Array) -> None:
    """Scale and shift x after normalising it to mean 0 and variance 1."""
    size = np.float32(x.size)
    total = ZERO
    for c in range(x.size):
        total += x[c]
    mean = total / size
    total = ZERO
    for c in range(x.size):
        total += (x[c] - mean) * (x[c] - mean)
    scale = ONE / np.sqrt(total / size + EPSILON)
    for c in range(x.size):
        y[c] = (x[c] - mean) * scale * weight[c] + bias[c]


@njit(**COMPILE)
def gelu(x: Array) -> None:
    """Replace every entry by its GELU."""
    for c in range(x.size):
        x[c] = gelu_of(x[c])


@njit(**COMPILE)
def add_gelu(x: Array, y: Array) -> None:
    """Add the GELU of x to y."""
    for c in range(y.size):
        y[c] += gelu_of(x[c])


@njit(**COMPILE)
def gelu_of(x: np.float32) -> np.float32:
    """GELU of one number, see activation.py."""
    clipped = min(max(x, -LIMIT), LIMIT)
    z = clipped * clipped
    numerator = P0 + z * (P1 + z * (P2 + z * (P3 + z * (P4 + z * P5))))
    denominator = Q0 + z * (Q1 + z * (Q2 + z * (Q3 + z * (Q4 + z * Q5))))
    return x * (HALF + clipped * (numerator / denominator))


# One robot's policy compiled with numba: what a robot runs.

class NumbaPolicy:
    """A Policy (see policy.py) that releases the GIL while it steps.

    Making one compiles the step, some seconds the first time on a machine and cached after that.
    """

    def __init__(self, model: PolicyModel, form: Form = "sdft") -> None:
        self.model = model
        network = fold(model)
        self._shape = network.shape
        self._parameters = _parameters(model, network, form)
        self.memory = _memory(network)
        self._window = WindowCounter(model.card)
        self._slot = 0
        self.step(np.zeros(self._shape.observation, dtype=np.float32))
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self.memory.inputs[:] = 0
        self.memory.spectrum[:] = 0
        self._slot = 0
        self._window.restart()

    def step(self, observation: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """See Policy."""
        checked = finite_observation(observation, (self._shape.observation,))
        if self._window.is_full():
            self.reset()
        self._window.count()
        action = np.empty(self._shape.action, dtype=np.float32)
        step(checked, action, self._slot, self._parameters, self.memory)
        self._slot = (self._slot + 1) % self._shape.window
        return action


def _parameters(model: PolicyModel, network: FoldedNetwork, form: Form) -> Parameters:
    rotation = spectral.phase_table(network.shape.window, network.shape.modes)[:, 0]
    kernels = network.kernels[:, ::-1] if form == "fir" else np.zeros((0, 0, 0), dtype=np.float32)
    return Parameters(
        observation_mean=model.observation_mean,
        observation_std=model.observation_std,
        observation_clip=np.float32(model.card.observation_clip),
        action_mean=model.action_mean,
        action_scale=model.action_scale,
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
    shape = network.shape
    widest = max(shape.observation, shape.hidden, shape.decoder_hidden)
    return Memory(
        inputs=np.zeros((shape.layers, shape.window, shape.hidden), dtype=np.float32),
        spectrum=np.zeros((shape.layers, 2, shape.modes, shape.hidden), dtype=np.float64),
        scratch=np.zeros((4, widest), dtype=np.float32),
    )
