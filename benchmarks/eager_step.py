"""The published form of one recurrent step, straightforward in eager PyTorch: what the runtimes are compared to.

The spectral state is a complex (modes, d) tensor per layer; every step rotates it, multiplies it by the complex
weights W (modes, modes, d) and takes the last sample of the inverse DFT.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.fcnet import config as spectral


class EagerPolicy:
    """A Policy in eager PyTorch with float32 weights and state."""

    def __init__(self, model: PolicyModel) -> None:
        self.shape = shape = model.card.config
        self.w = {name: torch.from_numpy(weight) for name, weight in model.weights.items()}
        self.spectral_weights = [
            torch.view_as_complex(self.w[f"fourier_layers.{layer}.csc.weights"]) for layer in range(shape.layers)
        ]
        rotation = spectral.phase_table(shape.window, shape.modes)[:, :1]
        self.rotation = torch.from_numpy(rotation.astype(np.complex64))
        self.inverse_dft = torch.from_numpy(spectral.inverse_dft_last(shape.window, shape.modes).astype(np.complex64))
        names = ("observation_mean", "observation_std", "action_mean", "action_scale")
        self.mean, self.std, self.action_mean, self.action_scale = (torch.from_numpy(model.scales[n]) for n in names)
        self.clip = model.card.observation_clip
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        shape = self.shape
        self.spectrum = torch.zeros(shape.layers, shape.modes, shape.hidden, dtype=torch.complex64)
        self.inputs = torch.zeros(shape.layers, shape.window, shape.hidden)
        self.slot = 0

    @torch.inference_mode()
    def step(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Joint targets (action,) [rad] for an observation (observation,)."""
        x = ((torch.from_numpy(observation) - self.mean) / self.std).clamp(-self.clip, self.clip)
        x = self._linear("fc0", x)
        for layer in range(self.shape.layers):
            prefix = f"fourier_layers.{layer}."
            x = x + functional.gelu(self._mix(layer, self._layer_norm(prefix + "ln1", x)))
            inner = functional.gelu(self._linear(prefix + "ffn.fc1", self._layer_norm(prefix + "ln2", x)))
            x = x + self._linear(prefix + "ffn.fc2", inner)
        self.slot = (self.slot + 1) % self.shape.window
        output = self._linear("fc2", functional.gelu(self._linear("fc1", x)))
        return (self.action_mean + self.action_scale * output).numpy()

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        change = x - self.inputs[layer, self.slot]
        self.inputs[layer, self.slot] = x
        self.spectrum[layer] = self.rotation * (self.spectrum[layer] + change)
        mixed = torch.einsum("kd,kld->ld", self.spectrum[layer], self.spectral_weights[layer])
        return torch.einsum("ld,l->d", mixed, self.inverse_dft).real

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def _layer_norm(self, name: str, x: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape, self.w[name + ".weight"], self.w[name + ".bias"])
