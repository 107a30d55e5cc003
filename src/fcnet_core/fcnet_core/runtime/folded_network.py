"""A policy's weights as every runtime uses them: stacked by layer, with the spectral weights folded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fcnet_core import spectral
from fcnet_core.model_file import PolicyModel
from fcnet_core.network_shape import NetworkShape

Array = npt.NDArray[np.floating]


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
