"""The network around its spectral convolutions, in NumPy, for one robot or many at once."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from fcnet_core.runtime.activation import gelu
from fcnet_core.runtime.folded_network import FoldedNetwork

Array = npt.NDArray[np.floating]
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
