"""The network in NumPy, step by step or on whole recorded sequences, and as a step of an ONNX graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Floats, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.fcnet.spectral import (
    BlockFilter,
    CausalFilter,
    Complex,
    SequenceFilter,
    SlidingDft,
    folded_weights,
    kernel,
    phase_table,
)
from fcnet_core.policies.layers import gelu, layer_norm, linear

if TYPE_CHECKING:
    from fcnet_core.policies.onnx_graph import GraphBuilder

SEQUENCE_BLOCK = 512  # steps computed at a time: their activations stay in the cache


class Weights(NamedTuple):
    """A policy's weights as every runtime uses them: stacked by layer, with the spectral weights folded.

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

    @property
    def complex_weight(self) -> Complex:
        """V (L, m, d)."""
        return self.spectral_weight[:, 0] + 1j * self.spectral_weight[:, 1]

    def kernels(self, window: int) -> Single:
        """Impulse responses h (L, n, d) of the spectral convolutions."""
        return kernel(self.complex_weight, window).astype(np.float32)


def fold(model: PolicyModel, dtype: npt.DTypeLike = np.float32) -> Weights:
    """Stack and fold the weights of a model; those of the Sliding DFT are always float64."""
    config = model.card.config
    weights = {name: weight.astype(dtype, copy=False) for name, weight in model.weights.items()}

    def stacked(*names: str) -> Floats:
        layers = range(config.layers)
        return np.stack([np.stack([weights[f"fourier_layers.{layer}.{name}"] for name in names]) for layer in layers])

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


def forward(weights: Weights, memory: CausalFilter, x: Floats) -> Floats:
    """Return network outputs (..., action) for normalised observations (..., observation), one step on."""
    hidden = linear(x, weights.encoder_weight, weights.encoder_bias)
    for layer, (norm, weight, bias) in enumerate(zip(weights.norm, weights.ffn_weight, weights.ffn_bias, strict=True)):
        hidden += gelu(memory.mix(layer, layer_norm(hidden, norm[0], norm[1])))
        inner = linear(layer_norm(hidden, norm[2], norm[3]), weight[0], bias[0])
        hidden += linear(gelu(inner), weight[1], bias[1])
    memory.advance()
    inner = linear(hidden, weights.decoder_weight, weights.decoder_bias)
    return linear(gelu(inner), weights.output_weight, weights.output_bias)


class Step:
    """A NetworkStep: by the paper's Sliding DFT in float64, by blocks of a filter in float32.

    In float32 a trained network's rounding, in this order of operations, reaches 2e-6 rad, as much as the runtimes may
    differ.
    """

    def __init__(self, model: PolicyModel, batch: int, dtype: npt.DTypeLike) -> None:
        window = model.card.config.window
        self._weights = fold(model, dtype)
        self.memory: SlidingDft | BlockFilter
        if dtype == np.float64:
            self.memory = SlidingDft(self._weights.complex_weight, window, batch)
        else:
            self.memory = BlockFilter(self._weights.kernels(window), batch)

    def reset(self, chosen: Mask | slice) -> None:
        self.memory.reset(chosen)

    def step(self, x: Floats) -> Floats:
        return forward(self._weights, self.memory, x)


class Sequence:
    """The policy over whole recorded sequences at once: many times faster than step by step.

    The memory is a causal filter of the network's inputs, and in a recording all inputs are known: each layer filters
    a block of the sequence before the next layer begins.
    """

    def __init__(self, model: PolicyModel) -> None:
        self._weights = fold(model)
        self._memory = SequenceFilter(self._weights.kernels(model.card.config.window))

    def run(self, x: Single) -> Floats:
        """Return outputs (T, action) for normalised observations (T, observation) after a reset."""
        self._memory.reset()
        starts = range(0, len(x), SEQUENCE_BLOCK)
        blocks = [forward(self._weights, self._memory, x[start : start + SEQUENCE_BLOCK]) for start in starts]
        return np.concatenate(blocks)


def add_to_graph(g: GraphBuilder, model: PolicyModel) -> str:
    """Add a step to a graph; return the name of its output.

    Memory that the caller keeps: oldest (L, B, d), the `newest` of n steps before; spectrum_real and spectrum_imaginary
    (L, B, m, d).
    """
    config, weights = model.card.config, fold(model)
    spectrum = [config.layers, "batch", config.modes, config.hidden]
    hidden = g.linear(g.observation(), weights.encoder_weight, weights.encoder_bias)
    oldest = g.memory("oldest", [config.layers, "batch", config.hidden], delay=config.window, result="newest")
    states = [g.memory(f"spectrum_{part}", spectrum, np.float64) for part in ("real", "imaginary")]
    memory = zip(*(g.split(name, config.layers) for name in (oldest, *states)), strict=True)
    kept: list[tuple[str, str, str]] = []
    for layer, (old, real, imaginary) in enumerate(memory):
        norm, weight, bias = weights.norm[layer], weights.ffn_weight[layer], weights.ffn_bias[layer]
        x = g.layer_norm(hidden, norm[0], norm[1])
        mixed, real, imaginary = _slide(g, weights, layer, (x, old, real, imaginary))
        kept.append((g.add("Unsqueeze", x, g.constant(np.array([0]))), real, imaginary))
        hidden = g.add("Add", hidden, g.add("Gelu", mixed))
        inner = g.add("Gelu", g.linear(g.layer_norm(hidden, norm[2], norm[3]), weight[0], bias[0]))
        hidden = g.add("Add", hidden, g.linear(inner, weight[1], bias[1]))
    for name, parts in zip((oldest, *states), zip(*kept, strict=True), strict=True):
        g.keep(name, g.add("Concat", *parts, axis=0))
    decoded = g.add("Gelu", g.linear(hidden, weights.decoder_weight, weights.decoder_bias))
    return g.linear(decoded, weights.output_weight, weights.output_bias)


def _slide(g: GraphBuilder, weights: Weights, layer: int, inputs: tuple[str, str, str, str]) -> tuple[str, str, str]:
    """One step of the Sliding DFT from x and the oldest input (B, d) and the real and imaginary spectra (1, B, m, d):
    its output (B, d) and the new spectra.
    """
    x, oldest, real, imaginary = inputs
    cosine, sine = (g.constant(part[:, None]) for part in weights.rotation)
    change = g.add("Sub", g.add("Cast", x, to=g.DOUBLE), g.add("Cast", oldest, to=g.DOUBLE))
    real = g.add("Add", real, g.add("Unsqueeze", change, g.constant(np.array([2]))))
    next_real = g.add("Sub", g.add("Mul", cosine, real), g.add("Mul", sine, imaginary))
    next_imaginary = g.add("Add", g.add("Mul", sine, real), g.add("Mul", cosine, imaginary))
    weight = [g.constant(part) for part in weights.spectral_weight[layer]]
    terms = g.add("Sub", g.add("Mul", weight[0], next_real), g.add("Mul", weight[1], next_imaginary))
    mixed = g.add("ReduceSum", terms, g.constant(np.array([0, 2])), keepdims=0)
    return g.add("Cast", mixed, to=g.SINGLE), next_real, next_imaginary
