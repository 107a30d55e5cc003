"""The network in NumPy, for one robot or many, and the runtime of one robot that needs NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Floats, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.fcnet.config import FCNetConfig, folded_weights, phase_table
from fcnet_core.policies.layers import gelu, layer_norm, linear


@dataclass(frozen=True)
class FoldedNetwork:
    """A policy's weights as every runtime uses them: stacked by layer, with the spectral weights folded.

    Arrays of L layers with d channels, m modes and window n; linear weights are (outputs, inputs).

    Folding W into v leaves 603,532 of the 787,852 numbers of the legged configuration.
    """

    config: FCNetConfig
    encoder_weight: Floats  # (d, observation)
    encoder_bias: Floats  # (d,)
    norm: Floats  # (L, 4, d): weight and bias of ln1, weight and bias of ln2
    spectral_weight: npt.NDArray[np.complex128]  # (L, m, d): v
    ffn_weight: Floats  # (L, 2, d, d)
    ffn_bias: Floats  # (L, 2, d)
    decoder_weight: Floats  # (decoder_hidden, d)
    decoder_bias: Floats  # (decoder_hidden,)
    output_weight: Floats  # (action, decoder_hidden)
    output_bias: Floats  # (action,)

    @property
    def kernels(self) -> Floats:
        """Impulse responses h (L, n, d) of the spectral convolutions."""
        table = phase_table(self.config.window, self.config.modes)
        return np.einsum("akd,kt->atd", self.spectral_weight, table).real.astype(self.encoder_weight.dtype)

    def double(self) -> FoldedNetwork:
        """The same network in float64."""
        arrays = {name: value.astype(np.float64) for name, value in vars(self).items() if _is_real_array(value)}
        return replace(self, **arrays)


def fold(model: PolicyModel) -> FoldedNetwork:
    """Stack and fold the weights of a model."""
    weights, config = model.weights, model.card.config

    def stacked(*names: str) -> Floats:
        layers = range(config.layers)
        return np.stack([np.stack([weights[f"fourier_layers.{layer}.{name}"] for name in names]) for layer in layers])

    return FoldedNetwork(
        config=config,
        encoder_weight=weights["fc0.weight"],
        encoder_bias=weights["fc0.bias"],
        norm=stacked("ln1.weight", "ln1.bias", "ln2.weight", "ln2.bias"),
        spectral_weight=np.stack([folded_weights(W[0], config.window) for W in stacked("csc.weights")]),
        ffn_weight=stacked("ffn.fc1.weight", "ffn.fc2.weight"),
        ffn_bias=stacked("ffn.fc1.bias", "ffn.fc2.bias"),
        decoder_weight=weights["fc1.weight"],
        decoder_bias=weights["fc1.bias"],
        output_weight=weights["fc2.weight"],
        output_bias=weights["fc2.bias"],
    )


def _is_real_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and not np.iscomplexobj(value)


Form = Literal["sdft", "fir"]  # two ways to run the spectral convolutions of one robot; they give the same numbers


class SlidingDft:
    """The Sliding DFT of the paper: X_k(t) = u_k (X_k(t-1) + x_t - x_{t-n}), y = Re sum_k v_k X_k(t).

    The spectral state is complex128. In float32 its error grows with time (3e-4 of a spectrum after 1e6 steps), in
    float64 it stays below 1e-10 for a month at 50 Hz.
    """

    def __init__(self, network: FoldedNetwork) -> None:
        shape = network.config
        self._rotation = phase_table(shape.window, shape.modes)[:, :1]
        self._weight = network.spectral_weight
        self.state = np.zeros((shape.layers, shape.modes, shape.hidden), dtype=np.complex128)
        self._inputs = np.zeros((shape.layers, shape.window, shape.hidden), dtype=network.encoder_weight.dtype)
        self._slot = 0

    def reset(self) -> None:
        """Forget every input."""
        self.state[:] = 0
        self._inputs[:] = 0
        self._slot = 0

    def mix(self, layer: int, x: Floats) -> Floats:
        """See StreamingFilter."""
        state, oldest = self.state[layer], self._inputs[layer, self._slot]
        state += x.astype(np.float64) - oldest
        state *= self._rotation
        oldest[:] = x
        return np.einsum("kd,kd->d", self._weight[layer], state).real.astype(x.dtype)

    def advance(self) -> None:
        """See StreamingFilter."""
        self._slot = (self._slot + 1) % self._inputs.shape[1]


class RingFilter:
    """The causal filter y_t = sum_tau h[tau] x_{t - tau} from the last n inputs: an error is gone n steps on."""

    def __init__(self, network: FoldedNetwork) -> None:
        self._kernels = network.kernels[:, ::-1].copy()  # oldest first
        self._inputs = np.zeros_like(self._kernels)
        self._slot = 0

    def reset(self) -> None:
        """Forget every input."""
        self._inputs[:] = 0
        self._slot = 0

    def mix(self, layer: int, x: Floats) -> Floats:
        """See StreamingFilter."""
        inputs, kernel = self._inputs[layer], self._kernels[layer]
        inputs[self._slot] = x
        old, new = inputs[self._slot + 1 :], inputs[: self._slot + 1]
        split = len(old)
        return np.einsum("td,td->d", old, kernel[:split]) + np.einsum("td,td->d", new, kernel[split:])

    def advance(self) -> None:
        """See StreamingFilter."""
        self._slot = (self._slot + 1) % self._inputs.shape[1]


def step_filter(network: FoldedNetwork, form: Form) -> SlidingDft | RingFilter:
    """The filter called "sdft" or "fir"."""
    return SlidingDft(network) if form == "sdft" else RingFilter(network)


class StreamingFilter(Protocol):
    """The memory of the network: the causal filter of every layer, fed one step at a time."""

    def mix(self, layer: int, x: Floats) -> Floats:
        """Output (..., d) of the layer's spectral convolution after its input x (..., d) of this step."""

    def advance(self) -> None:
        """Go to the next step, once every layer has been fed."""


def forward(network: FoldedNetwork, memory: StreamingFilter, x: Floats) -> Floats:
    """Network outputs (..., action) for normalised observations (..., observation); advances the memory by a step."""
    hidden = linear(x, network.encoder_weight, network.encoder_bias)
    for layer in range(network.config.layers):
        norm, weight, bias = network.norm[layer], network.ffn_weight[layer], network.ffn_bias[layer]
        hidden += gelu(memory.mix(layer, layer_norm(hidden, norm[0], norm[1])))
        inner = linear(layer_norm(hidden, norm[2], norm[3]), weight[0], bias[0])
        hidden += linear(gelu(inner), weight[1], bias[1])
    memory.advance()
    inner = linear(hidden, network.decoder_weight, network.decoder_bias)
    return linear(gelu(inner), network.output_weight, network.output_bias)


class NumpyStep:
    """A Runtime of one robot: the fallback where numba is missing, and the reference for the other runtimes.

    It computes in float64: a trained network's float32 rounding, in this order of operations, reaches 2e-6 rad, as much
    as the runtimes may differ.
    """

    def __init__(self, model: PolicyModel, form: Form = "sdft") -> None:
        self._units = model.normalisation
        self._network = fold(model).double()
        self.memory = step_filter(self._network, form)

    def reset(self, mask: Mask | None = None) -> None:
        """See Runtime."""
        self.memory.reset()

    def step(self, observation: Single) -> Single:
        """See Runtime."""
        output = forward(self._network, self.memory, self._units.input(observation))
        return self._units.action(output).astype(np.float32)
