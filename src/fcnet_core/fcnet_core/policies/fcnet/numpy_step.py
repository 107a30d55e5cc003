"""One robot's policy in NumPy: the fallback without numba, and the reference of the other runtimes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from fcnet_core.model_file import PolicyCard, PolicyModel
from fcnet_core.observation import finite_observation
from fcnet_core.policies.fcnet import config as spectral
from fcnet_core.policies.fcnet.config import NetworkShape

# GELU in its exact (erf) form, as a rational function that compiled loops and bulk NumPy evaluate quickly.
#
# gelu(x) = x (1/2 + c P(c^2) / Q(c^2)) with c = x clipped to +-LIMIT. P / Q was fitted by iteratively reweighted
# least squares to the normal distribution function minus 1/2; in float32 the result is within 3e-7 max(1, |x|) of the
# exact value, the same as an exact formula that is rounded to float32 at every operation.

Array = npt.NDArray[np.floating]

LIMIT = np.float32(5.4)
NUMERATOR = tuple(
    np.float32(p) for p in (3.9894205e-01, 3.4492053e-02, 4.7223987e-03, 1.7626610e-04, 6.4904007e-06, 2.2776980e-08)
)
DENOMINATOR = tuple(
    np.float32(q) for q in (1.0, 2.5312305e-01, 2.9027889e-02, 1.9254906e-03, 7.6510310e-05, 1.2086646e-06)
)


def gelu(x: Array) -> Array:
    """GELU of an array of any shape."""
    clipped = np.clip(x, -LIMIT, LIMIT)
    square = clipped * clipped
    ratio = _polynomial(NUMERATOR, square)
    ratio /= _polynomial(DENOMINATOR, square)
    ratio *= clipped
    ratio += np.float32(0.5)
    ratio *= x
    return ratio


def _polynomial(coefficients: tuple[np.float32, ...], x: Array) -> Array:
    value = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= x
    value += coefficients[0]
    return value


# What stands around the network: observations are scaled and clipped, outputs become joint targets.

def network_input(model: PolicyModel, observation: Array) -> Array:
    """Observations (..., observation) in standard deviations from their mean, clipped as the card says."""
    clip = np.float32(model.card.observation_clip)
    with np.errstate(over="ignore"):  # what overflows is clipped
        scaled = (observation - model.observation_mean) / model.observation_std
    return np.clip(scaled, -clip, clip)


def joint_targets(model: PolicyModel, output: Array) -> Array:
    """Joint position targets (..., action) [rad] of network outputs (..., action)."""
    return model.action_mean + model.action_scale * output


# A policy's weights as every runtime uses them: stacked by layer, with the spectral weights folded.

@dataclass(frozen=True)
class FoldedNetwork:
    """Arrays of L layers with d channels, m modes and window n; linear weights are (outputs, inputs).

    Folding W into v leaves 603,532 of the 787,852 numbers of the legged configuration.
    """

    shape: NetworkShape
    encoder_weight: Array  # (d, observation)
    encoder_bias: Array  # (d,)
    norm: Array  # (L, 4, d): weight and bias of ln1, weight and bias of ln2
    spectral_weight: npt.NDArray[np.complex128]  # (L, m, d): v
    ffn_weight: Array  # (L, 2, d, d)
    ffn_bias: Array  # (L, 2, d)
    decoder_weight: Array  # (decoder_hidden, d)
    decoder_bias: Array  # (decoder_hidden,)
    output_weight: Array  # (action, decoder_hidden)
    output_bias: Array  # (action,)

    @property
    def kernels(self) -> Array:
        """Impulse responses h (L, n, d) of the spectral convolutions."""
        table = spectral.phase_table(self.shape.window, self.shape.modes)
        return np.einsum("akd,kt->atd", self.spectral_weight, table).real.astype(self.encoder_weight.dtype)

    def double(self) -> FoldedNetwork:
        """The same network in float64."""
        arrays = {name: value.astype(np.float64) for name, value in vars(self).items() if _is_real_array(value)}
        return replace(self, **arrays)


def fold(model: PolicyModel) -> FoldedNetwork:
    """Stack and fold the weights of a model."""
    weights, shape = model.weights, model.card.shape

    def stacked(*names: str) -> Array:
        layers = range(shape.layers)
        return np.stack([np.stack([weights[f"fourier_layers.{layer}.{name}"] for name in names]) for layer in layers])

    return FoldedNetwork(
        shape=shape,
        encoder_weight=weights["fc0.weight"],
        encoder_bias=weights["fc0.bias"],
        norm=stacked("ln1.weight", "ln1.bias", "ln2.weight", "ln2.bias"),
        spectral_weight=np.stack([spectral.folded_weights(W[0], shape.window) for W in stacked("csc.weights")]),
        ffn_weight=stacked("ffn.fc1.weight", "ffn.fc2.weight"),
        ffn_bias=stacked("ffn.fc1.bias", "ffn.fc2.bias"),
        decoder_weight=weights["fc1.weight"],
        decoder_bias=weights["fc1.bias"],
        output_weight=weights["fc2.weight"],
        output_bias=weights["fc2.bias"],
    )


def _is_real_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and not np.iscomplexobj(value)


# When a policy that was trained on cold-start windows must forget.

class WindowCounter:
    """Counts the steps since the last reset for the card's window policy."""

    def __init__(self, card: PolicyCard) -> None:
        self._limit = card.shape.window if card.window_policy == "reset_every_n" else None
        self._steps = 0

    def restart(self) -> None:
        """Count from zero again."""
        self._steps = 0

    def count(self) -> None:
        """One more step is taken."""
        self._steps += 1

    def is_full(self) -> bool:
        """Whether the policy must be reset before its next step; never for a sliding window."""
        return self._steps == self._limit


# Two ways to run the spectral convolutions of one robot step by step: they give the same numbers.

Form = Literal["sdft", "fir"]


class SlidingDft:
    """The Sliding DFT of the paper: X_k(t) = u_k (X_k(t-1) + x_t - x_{t-n}), y = Re sum_k v_k X_k(t).

    The spectral state is complex128. In float32 its error grows with time (3e-4 of a spectrum after 1e6 steps), in
    float64 it stays below 1e-10 for a month at 50 Hz.
    """

    def __init__(self, network: FoldedNetwork) -> None:
        shape = network.shape
        self._rotation = spectral.phase_table(shape.window, shape.modes)[:, :1]
        self._weight = network.spectral_weight
        self.state = np.zeros((shape.layers, shape.modes, shape.hidden), dtype=np.complex128)
        self._inputs = np.zeros((shape.layers, shape.window, shape.hidden), dtype=network.encoder_weight.dtype)
        self._slot = 0

    def reset(self) -> None:
        """Forget every input."""
        self.state[:] = 0
        self._inputs[:] = 0
        self._slot = 0

    def mix(self, layer: int, x: Array) -> Array:
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

    def mix(self, layer: int, x: Array) -> Array:
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


# The network around its spectral convolutions, in NumPy, for one robot or many at once.

EPSILON = np.float32(1e-5)


class StreamingFilter(Protocol):
    """The memory of the network: the causal filter of every layer, fed one step at a time."""

    def mix(self, layer: int, x: Array) -> Array:
        """Output (..., d) of the layer's spectral convolution after its input x (..., d) of this step."""

    def advance(self) -> None:
        """Go to the next step, once every layer has been fed."""


def forward(network: FoldedNetwork, memory: StreamingFilter, x: Array) -> Array:
    """Network outputs (..., action) for normalised observations (..., observation); advances the memory by a step."""
    hidden = linear(x, network.encoder_weight, network.encoder_bias)
    for layer in range(network.shape.layers):
        norm, weight, bias = network.norm[layer], network.ffn_weight[layer], network.ffn_bias[layer]
        hidden += gelu(memory.mix(layer, layer_norm(hidden, norm[0], norm[1])))
        inner = linear(layer_norm(hidden, norm[2], norm[3]), weight[0], bias[0])
        hidden += linear(gelu(inner), weight[1], bias[1])
    memory.advance()
    inner = linear(hidden, network.decoder_weight, network.decoder_bias)
    return linear(gelu(inner), network.output_weight, network.output_bias)


def linear(x: Array, weight: Array, bias: Array) -> Array:
    """Rows of x (..., inputs) times weight (outputs, inputs), plus bias (outputs,)."""
    result: Array = x @ weight.T
    result += bias
    return result


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    """Normalise the last axis of x (..., d) to mean 0 and variance 1, then scale and shift it."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("...d,...d->...", centred, centred)[..., None] / np.float32(x.shape[-1])
    centred /= np.sqrt(variance + EPSILON)
    centred *= weight
    centred += bias
    return centred


# One robot's policy in NumPy: the fallback where numba is missing, and the reference for the other runtimes.

class NumpyPolicy:
    """A Policy (see policy.py) that needs NumPy alone.

    It computes in float64: a trained network's float32 rounding, in this order of operations, reaches 2e-6 rad, as much
    as the runtimes may differ.
    """

    def __init__(self, model: PolicyModel, form: Form = "sdft") -> None:
        self.model = model
        self._network = fold(model).double()
        self.memory = step_filter(self._network, form)
        self._window = WindowCounter(model.card)

    def reset(self) -> None:
        """Forget every past observation."""
        self.memory.reset()
        self._window.restart()

    def step(self, observation: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """See Policy."""
        checked = finite_observation(observation, (self._network.shape.observation,))
        if self._window.is_full():
            self.reset()
        self._window.count()
        output = forward(self._network, self.memory, network_input(self.model, checked))
        return joint_targets(self.model, output).astype(np.float32)
