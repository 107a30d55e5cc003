"""The Fourier Controller Network in PyTorch.

On sequences, its causal spectral convolution (CSC) is computed as one causal filter of the window's length per channel
(see spectral.py), so a sequence may be longer than the window; on CUDA in float32 by the Sliding DFT (see
sliding_filter.py). A step advances the spectrum by the Sliding DFT.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from fcnet_core.policies.causal_filter import causal_filter
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.fcnet.spectral import inverse_dft_last, phase_table, sliding_phases
from fcnet_core.policies.network import PolicyNetwork, State, ring_of


class FourierControllerNetwork(PolicyNetwork):
    """Parameters carry the published names and initialisation. Memory: a ring (window, B, L d) of the inputs of all
    CSCs, and the spectrum X of the window, real and imaginary parts (B, L, m, d), always float64: in float32 its error
    grows with time (3e-4 of a spectrum after 1e6 steps).
    """

    def __init__(self, config: FCNetConfig) -> None:
        super().__init__()
        self.config = config
        self.fc0 = nn.Linear(config.observation, config.hidden)
        self.fourier_layers = nn.ModuleList(FourierLayer(config) for _ in range(config.layers))
        self.fc1 = nn.Linear(config.hidden, config.decoder_hidden)
        self.fc2 = nn.Linear(config.decoder_hidden, config.action)

    def cold(self, batch: int) -> State:
        config = self.config
        shape = batch, config.layers, config.modes, config.hidden
        spectrum = {name: self.zeros(*shape).double() for name in ("real", "imaginary")}
        return {"inputs": self.zeros(config.window, batch, config.layers * config.hidden), **spectrum}

    def forward(self, observation: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        output, inputs = self._passed(observation, state)
        kept = torch.cat([ring_of(rows, self.config.window) for rows in inputs], dim=-1)
        real, imaginary = self._spectrum(kept)
        return output, {"inputs": kept, "real": real, "imaginary": imaginary}

    def actions(self, observation: Tensor) -> Tensor:
        return self._passed(observation, None)[0]

    def _passed(self, observation: Tensor, state: State | None) -> tuple[Tensor, list[Tensor]]:
        """Return the actions of sequences, and of each layer the inputs of its CSC."""
        x, inputs, layers = self.fc0(observation), [], self.config.layers  # (B, T, hidden)
        past = [None] * layers if state is None else state["inputs"].chunk(layers, -1)
        for layer, before in zip(self.fourier_layers, past, strict=True):
            x, filtered = layer(x, before)
            inputs.append(filtered)
        return self.fc2(gelu(self.fc1(x))), inputs

    def step(self, observation: Tensor, state: State) -> tuple[Tensor, State]:
        x, rows, spectra = self.fc0(observation), [], []  # (B, hidden)
        oldest = state["inputs"][0].chunk(len(self.fourier_layers), -1)
        layer: Any  # a FourierLayer
        for index, layer in enumerate(self.fourier_layers):
            normed = layer.ln1(x)
            change = (normed.double() - oldest[index].double())[:, None]
            mixed, spectrum = layer.csc.slide(change, state["real"][:, index], state["imaginary"][:, index])
            x = x + gelu(mixed.to(x))
            x = x + layer.ffn(layer.ln2(x))
            rows.append(normed)
            spectra.append(spectrum)
        real, imaginary = (torch.stack(parts, dim=1) for parts in zip(*spectra, strict=True))
        written = {"inputs": torch.cat(rows, dim=-1), "real": real, "imaginary": imaginary}
        return self.fc2(gelu(self.fc1(x))), written

    @torch.no_grad()
    def _spectrum(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return X (B, L, m, d), real and imaginary parts, of the last inputs (n, B, L d)."""
        config, device = self.config, inputs.device
        phases = torch.from_numpy(phase_table(config.window, config.modes)[:, ::-1].copy()).to(device)  # oldest first
        shape = config.modes, inputs.shape[1], config.layers, config.hidden
        with torch.autocast(device.type, enabled=False):
            parts = [(part.to(inputs) @ inputs.flatten(1)).view(shape) for part in (phases.real, phases.imag)]
        real, imaginary = (part.permute(1, 2, 0, 3).double() for part in parts)
        return real, imaginary


class FourierLayer(nn.Module):
    """x += GELU(CSC(LN(x))), then x += FFN(LN(x)), on (B, T, hidden)."""

    def __init__(self, config: FCNetConfig) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(config.hidden)
        self.csc = CausalSpectralConvolution(config)
        self.ln2 = nn.LayerNorm(config.hidden)
        d = config.hidden
        self.ffn = nn.Sequential(OrderedDict(fc1=nn.Linear(d, d), gelu=nn.GELU(), fc2=nn.Linear(d, d)))

    def forward(self, x: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the output (B, T, hidden), and the inputs of the CSC with the earlier ones (n, B, hidden) in front."""
        inputs = self.ln1(x)
        if before is not None:
            inputs = torch.cat([before.transpose(0, 1).to(inputs), inputs], dim=1)
        x = x + gelu(self.csc(inputs, past=inputs.shape[1] - x.shape[1]))
        return x + self.ffn(self.ln2(x)), inputs


class CausalSpectralConvolution(nn.Module):
    """The CSC with weights W (m, m, d, 2): [input mode, output mode, channel, real or imaginary part]."""

    def __init__(self, config: FCNetConfig) -> None:
        super().__init__()
        modes, window = config.modes, config.window
        self.weights = nn.Parameter(torch.randn(modes, modes, config.hidden, 2) / (modes * math.sqrt(2)))
        phases, last = phase_table(window, modes), inverse_dft_last(window, modes)
        # Constants in float64; they follow the weights' type where they are used.
        self._phases = torch.from_numpy(np.concatenate([phases.real, -phases.imag]).T)  # (n, 2 m)
        self._last = torch.from_numpy(np.stack([last.real, last.imag]))  # (2, m)
        self._turns = torch.from_numpy(sliding_phases(window, modes))
        self._window = window

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        """Let the constants follow the weights to their device, but keep their precision."""
        super()._apply(fn, recurse)
        for name in ("_phases", "_last", "_turns"):
            setattr(self, name, getattr(self, name).to(self.weights.device))
        return self

    def folded(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return v (m, d), v_k = sum_l W[k, l] e_l, real and imaginary parts, for W in any precision."""
        parts = (self._last.to(weights) @ weights.flatten(2)).unflatten(-1, (-1, 2))
        return parts[:, 0, :, 0] - parts[:, 1, :, 1], parts[:, 0, :, 1] + parts[:, 1, :, 0]

    def kernel(self) -> Tensor:
        """Return the impulse response h (n, d): h[tau] = Re sum_k v_k u_k^(tau + 1)."""
        return self._phases.to(self.weights) @ torch.cat(self.folded(self.weights))

    def slide(self, change: Tensor, real: Tensor, imaginary: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the output (B, d) of a step and its spectrum X <- u (X + change), whose parts are (B, m, d).

        change (B, 1, d): newest less oldest input. In float64.
        """
        cosine, minus_sine = self._phases[0][:, None].chunk(2)
        real = real + change
        real, imaginary = cosine * real + minus_sine * imaginary, cosine * imaginary - minus_sine * real
        for_real, for_imaginary = self.folded(self.weights.double())
        return (for_real * real - for_imaginary * imaginary).sum(1), (real, imaginary)

    def forward(self, x: Tensor, past: int = 0) -> Tensor:
        """Filter x (B, past + T, d) causally along T from row `past` on, in the weights' precision even where products
        are in a lower one. On CUDA, x and the output are then in the lower one, and only the spectrum in float32.
        """
        device = x.device.type
        lower = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        with torch.autocast(device, enabled=False):
            if device == "cuda" and self.weights.dtype == torch.float32:
                from fcnet_core.policies.fcnet.sliding_filter import slide  # Triton comes with torch for CUDA alone

                folded = torch.stack(self.folded(self.weights))
                return slide(x.to(lower), folded, self._turns, self._window, past)
            kernel = self.kernel()[: x.shape[1]]
            return causal_filter(x.to(kernel.dtype), kernel)[:, past:]
