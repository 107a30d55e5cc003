"""The Fourier Controller Network in the form in which the paper's code trains it.

It repeats that code (FCNet/DT/models/fourier_controller.py of github.com/thkkk/FCNet, its defaults) operation by
operation: the spectra of all windows, (B, m, d, T + 1) complex numbers, by FFTs twice as long as the sequence, then the
complex weights W at every step, then the inverse DFT. Sequences have the window's length and start after a reset.
"""

import numpy as np
import torch
from torch import Tensor, nn

from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.fcnet.network import FourierControllerNetwork
from fcnet_core.policies.fcnet.spectral import inverse_dft_last, phase_table


class PublishedConvolution(nn.Module):
    """The published CSC with weights W (m, m, d, 2), for x (B, T, d) of T = n steps."""

    def __init__(self, config: FCNetConfig) -> None:
        super().__init__()
        self._modes = config.modes
        weights = torch.randn(config.modes, config.modes, config.hidden, dtype=torch.cfloat) / config.modes
        self.weights = nn.Parameter(torch.view_as_real(weights))
        phases = phase_table(config.window, config.modes)
        phases = np.concatenate([phases, phases[:, -1:]], axis=1)[None, :, None]  # (1, m, 1, T + 1)
        last = inverse_dft_last(config.window, config.modes)
        self.register_buffer("_dft", torch.from_numpy(phases.astype(np.complex64)), persistent=False)
        self.register_buffer("_last", torch.from_numpy(last.astype(np.complex64)), persistent=False)

    def forward(self, x: Tensor, past: int = 0) -> Tensor:
        """Return outputs (B, T, d). past: of sequences that continue others; there are none here."""
        batch, steps, channels = x.shape
        before = torch.zeros_like(x)
        spectrum_before = torch.zeros(batch, self._modes, channels, dtype=torch.cfloat, device=x.device)
        both = torch.cat((before, x), dim=-2)
        change = (-both[:, :steps] + both[:, steps : 2 * steps]).permute(0, 2, 1).unsqueeze(1)
        change = change.expand(-1, self._modes, -1, -1)
        change = torch.cat((spectrum_before.unsqueeze(-1), change), dim=-1)  # (B, m, d, T + 1)
        length = 2 * (steps + 1) - 1
        product = torch.fft.fft(change, n=length) * torch.fft.fft(self._dft, n=length)
        spectra = torch.fft.ifft(product, n=length)[..., 1 : steps + 1].permute(0, 3, 1, 2)  # (B, T, m, d)
        mixed = torch.einsum("btmd,mnd->btnd", spectra, torch.view_as_complex(self.weights))
        return torch.einsum("btmd,m->btd", mixed, self._last).real


def published_network(config: FCNetConfig) -> FourierControllerNetwork:
    """Return the network with the published convolution in every layer, and new weights."""
    network = FourierControllerNetwork(config)
    for layer in network.fourier_layers:
        layer.csc = PublishedConvolution(config)
    return network
