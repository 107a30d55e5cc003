"""FCNet's control step in eager PyTorch, float32, one robot: the baseline of `fcnet bench step`.

`PublishedStep` repeats the paper's code operation by operation: a batch axis and a time axis of one, a list as ring of
inputs, and a complex spectrum. Like that code it multiplies the weights W by the inverse DFT once, at a reset.
`FastestStep` is the fastest eager form that we found: vectors, real numbers, results written in place, and the causal
filter h instead of the spectrum, two operations instead of six.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear

from fcnet_core.arrays import Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.fcnet.spectral import inverse_dft_last, kernel, phase_table
from fcnet_core.policies.fcnet.step import fold
from fcnet_core.policy import Policy


class Units:
    """The normalisation of one robot's observations and actions, in tensors."""

    def __init__(self, model: PolicyModel) -> None:
        names = ("observation_mean", "observation_std", "action_mean", "action_scale")
        self._mean, self._std, self._action_mean, self._action_scale = (
            torch.from_numpy(model.scales[name]) for name in names
        )
        self._clip = float(model.card.observation_clip)

    def input(self, observation: Single) -> Tensor:
        """Return the normalised observation (observation,)."""
        return (torch.from_numpy(observation) - self._mean).div_(self._std).clamp_(-self._clip, self._clip)

    def action(self, output: Tensor) -> Single:
        """Return the action (action,) for a network output."""
        action: Single = torch.addcmul(self._action_mean, self._action_scale, output).numpy()
        return action


class PublishedStep:
    """The published recurrent step, float32 with a spectrum in complex64."""

    def __init__(self, model: PolicyModel) -> None:
        self._config, self._units = model.card.config, Units(model)
        self._w = {name: torch.tensor(weight, dtype=torch.float32) for name, weight in model.weights.items()}
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        config = self._config
        phases = phase_table(config.window, config.modes)[:, 0].astype(np.complex64)
        last = torch.from_numpy(inverse_dft_last(config.window, config.modes).astype(np.complex64))
        weights = [torch.view_as_complex(self._w[f"fourier_layers.{i}.csc.weights"]) for i in range(config.layers)]
        self._rotation = torch.from_numpy(phases).reshape(1, -1, 1)
        self._folded = [(weight.permute(2, 0, 1) @ last).permute(1, 0) for weight in weights]
        self._inputs = [[torch.zeros(1, 1, config.hidden) for _ in range(config.window)] for _ in weights]
        self._spectra = [torch.zeros(1, config.modes, config.hidden, dtype=torch.cfloat) for _ in weights]
        self._slot = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """Return the action (action,) for an observation (observation,)."""
        x = self._linear("fc0", self._units.input(observation)[None, None])
        for layer in range(self._config.layers):
            name = f"fourier_layers.{layer}."
            x = gelu(self._convolve(layer, self._layer_norm(name + "ln1", x))) + x
            inner = gelu(self._linear(name + "ffn.fc1", self._layer_norm(name + "ln2", x)))
            x = self._linear(name + "ffn.fc2", inner) + x
        self._slot = (self._slot + 1) % self._config.window
        return self._units.action(self._linear("fc2", gelu(self._linear("fc1", x)))[0, 0])

    def _convolve(self, layer: int, x: Tensor) -> Tensor:
        oldest = self._inputs[layer][self._slot]
        spectrum = self._rotation * (self._spectra[layer] + (x - oldest))
        self._inputs[layer][self._slot], self._spectra[layer] = x, spectrum
        return torch.einsum("btmd,md->btd", spectrum.unsqueeze(1), self._folded[layer]).real

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return linear(x, self._w[name + ".weight"], self._w[name + ".bias"])

    def _layer_norm(self, name: str, x: Tensor) -> Tensor:
        return layer_norm(x, x.shape[-1:], self._w[name + ".weight"], self._w[name + ".bias"])


class FastestStep:
    """The fastest form in eager PyTorch that we found, float32."""

    def __init__(self, model: PolicyModel) -> None:
        config, weights = model.card.config, fold(model)
        self._window, self._units = config.window, Units(model)
        parts = (weights.encoder_weight, weights.decoder_weight, weights.output_weight)
        self._encoder, self._decoder, self._output = (torch.from_numpy(part) for part in parts)
        biases = (weights.encoder_bias, weights.decoder_bias, weights.output_bias)
        self._encoder_bias, self._decoder_bias, self._output_bias = (torch.from_numpy(bias) for bias in biases)
        filters = kernel(weights.complex_weight, config.window).astype(np.float32)[:, ::-1]  # the oldest input first
        self._layers = [
            tuple(torch.from_numpy(np.ascontiguousarray(part)) for part in (*norm, *ffn_weight, *ffn_bias, filters[i]))
            for i, (norm, ffn_weight, ffn_bias) in enumerate(
                zip(weights.norm, weights.ffn_weight, weights.ffn_bias, strict=True)
            )
        ]
        # Two copies of the ring one behind the other: the last n inputs are always one piece.
        self._inputs = torch.zeros(config.layers, 2 * config.window, config.hidden)
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._inputs.zero_()
        self._slot = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """Return the action (action,) for an observation (observation,)."""
        n, slot, size = self._window, self._slot, self._encoder_bias.shape
        x = torch.addmv(self._encoder_bias, self._encoder, self._units.input(observation))
        for inputs, (scale1, shift1, scale2, shift2, expand, contract, bias1, bias2, h) in zip(
            self._inputs, self._layers, strict=True
        ):
            normed = layer_norm(x, size, scale1, shift1)
            inputs[slot], inputs[slot + n] = normed, normed
            x = gelu((inputs[slot + 1 : slot + 1 + n] * h).sum(0)).add_(x)
            inner = torch.addmv(bias1, expand, layer_norm(x, size, scale2, shift2))
            x = torch.addmv(bias2, contract, gelu(inner)).add_(x)
        self._slot = (slot + 1) % n
        return self._units.action(
            torch.addmv(self._output_bias, self._output, gelu(torch.addmv(self._decoder_bias, self._decoder, x)))
        )


FCNET_FORMS: dict[str, Callable[[PolicyModel], Policy]] = {
    "published eager": PublishedStep,
    "fastest eager": FastestStep,
}
