"""The network around its spectral convolutions, in NumPy, for one robot or many at once."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from fcnet_core.runtime.activation import gelu
from fcnet_core.runtime.folded_network import FoldedNetwork

Array = npt.NDArray[np.float32]
EPSILON = np.float32(1e-5)


class StreamingFilter(Protocol):
    """The memory of the network: the causal filter of every layer, fed one step at a time."""

    def mix(self, layer: int, x: Array) -> Array:
        """Output (..., d) of the layer's spectral convolution after its input x (..., d) of this step."""

    def advance(self) -> None:
        """Go to the next step, once every layer has been fed."""


def forward(network: FoldedNetwork, memory: StreamingFilter, x: Array) -> Array:
    """Network outputs (..., action) for normalised observations (..., observation); advances the memory by a step."""
    hidden = x @ network.encoder_weight.T + network.encoder_bias
    for layer in range(network.shape.layers):
        norm, weight, bias = network.norm[layer], network.ffn_weight[layer], network.ffn_bias[layer]
        hidden += gelu(memory.mix(layer, layer_norm(hidden, norm[0], norm[1])))
        inner = layer_norm(hidden, norm[2], norm[3]) @ weight[0].T
        inner += bias[0]
        hidden += gelu(inner) @ weight[1].T
        hidden += bias[1]
    memory.advance()
    decoded: Array = hidden @ network.decoder_weight.T + network.decoder_bias
    return gelu(decoded) @ network.output_weight.T + network.output_bias


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    """Normalise the last axis of x (..., d) to mean 0 and variance 1, then scale and shift it."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("...d,...d->...", centred, centred)[..., None] / np.float32(x.shape[-1])
    centred /= np.sqrt(variance + EPSILON)
    centred *= weight
    centred += bias
    return centred
