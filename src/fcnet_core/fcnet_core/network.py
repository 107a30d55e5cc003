"""The Fourier Controller Network in PyTorch, in the form that trains fast.

Its causal spectral convolution (CSC) is computed as what it is, one causal filter of the window's length per channel
(see spectral.py), so a training sequence may be longer than the window: the filter slides over it, as on the robot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from fcnet_core.network_shape import NetworkShape
from fcnet_core.spectral import inverse_dft_last, phase_table

try:
    from fcnet_core import direct_filter
except ModuleNotFoundError:  # no numba: every window goes through the FFT
    DIRECT_WINDOW = 0
else:
    DIRECT_WINDOW = 256  # longest window for which filtering tap by tap is faster: 4 to 5 times at 64 steps


class FourierControllerNetwork(nn.Module):
    """Maps normalised observations (B, T, observation) to normalised actions (B, T, action), causally, any T >= 1.

    The first step of a sequence sees an empty window. Parameters carry the published names and initialisation.
    """

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        self.fc0 = nn.Linear(shape.observation, shape.hidden)
        self.fourier_layers = nn.ModuleList(FourierLayer(shape) for _ in range(shape.layers))
        self.fc1 = nn.Linear(shape.hidden, shape.decoder_hidden)
        self.fc2 = nn.Linear(shape.decoder_hidden, shape.action)

    def forward(self, observation: Tensor) -> Tensor:
        """Actions of every step."""
        x = self.fc0(observation)  # (B, T, hidden)
        for layer in self.fourier_layers:
            x = layer(x)
        return self.fc2(gelu(self.fc1(x)))


class FourierLayer(nn.Module):
    """x += GELU(CSC(LN(x))), then x += FFN(LN(x)), on (B, T, hidden)."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(shape.hidden)
        self.csc = CausalSpectralConvolution(shape)
        self.ln2 = nn.LayerNorm(shape.hidden)
        self.ffn = FeedForward(shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output, of the shape of its input."""
        x = x + gelu(self.csc(self.ln1(x)))
        return x + self.ffn(self.ln2(x))


class FeedForward(nn.Module):
    """Linear, GELU, Linear, all of one width."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(hidden, hidden)
        self.fc2 = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, of the shape of its input."""
        return self.fc2(gelu(self.fc1(x)))


class CausalSpectralConvolution(nn.Module):
    """The CSC with weights W (m, m, d, 2): [input mode, output mode, channel, real or imaginary part]."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        modes, window = shape.modes, shape.window
        self.weights = nn.Parameter(torch.randn(modes, modes, shape.hidden, 2) / (modes * math.sqrt(2)))
        phases, last = phase_table(window, modes), inverse_dft_last(window, modes)
        # Constants in float64; they follow the weights' type where they are used.
        self._phases = torch.from_numpy(np.concatenate([phases.real, -phases.imag]).T)  # (n, 2 m)
        self._last = torch.from_numpy(np.stack([last.real, last.imag]))  # (2, m)

    def kernel(self) -> Tensor:
        """The impulse response h (n, d): h[tau] = Re sum_k v_k u_k^(tau + 1) with v_k = sum_l W[k, l] e_l."""
        modes, _, channels, _ = self.weights.shape
        last, phases = self._last.to(self.weights), self._phases.to(self.weights)
        parts = (last @ self.weights.flatten(2)).view(modes, 2, channels, 2)  # [k, re or im of e, d, re or im of W]
        real = parts[:, 0, :, 0] - parts[:, 1, :, 1]
        imaginary = parts[:, 0, :, 1] + parts[:, 1, :, 0]
        return phases @ torch.cat([real, imaginary])

    def forward(self, x: Tensor) -> Tensor:
        """Filter x (B, T, d) causally along T."""
        kernel = self.kernel()[: x.shape[1]]
        return (DirectFilter if len(kernel) <= DIRECT_WINDOW else SpectralFilter).apply(x, kernel)


class DirectFilter(torch.autograd.Function):
    """y_t = sum_tau h[tau] x_{t - tau} per channel, for x (B, T, d) and h (n, d), tap by tap."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor) -> Tensor:
        """Filter."""
        x, h = x.contiguous(), h.contiguous()
        ctx.save_for_backward(x, h)
        return torch.from_numpy(direct_filter.filter_causally(x.numpy(), h.numpy()))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Correlate the gradient with h (for x) and with x (for h)."""
        x, h = ctx.saved_tensors
        for_x, for_h = direct_filter.filter_gradients(x.numpy(), h.numpy(), gradient.contiguous().numpy())
        return torch.from_numpy(for_x), torch.from_numpy(for_h)


class SpectralFilter(torch.autograd.Function):
    """The same filter, n <= T, by real FFTs along T.

    The backward pass is written by hand: it keeps x and h alone and needs three transforms, where differentiating
    through the transforms would keep every spectrum.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor) -> Tensor:
        """Filter; linear, because the transform is long enough for x and h together."""
        x = x.transpose(1, 2).contiguous()  # (B, d, T)
        h = h.T.contiguous()  # (d, n)
        ctx.save_for_backward(x, h)
        length = fast_transform_length(x.shape[2] + h.shape[1] - 1)
        spectrum = torch.fft.rfft(x, n=length).mul_(torch.fft.rfft(h, n=length))
        return torch.fft.irfft(spectrum, n=length)[..., : x.shape[2]].transpose(1, 2).contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Correlate the gradient with h (for x) and with x (for h)."""
        x, h = ctx.saved_tensors
        steps, window = x.shape[2], h.shape[1]
        length = fast_transform_length(steps + window - 1)
        spectrum = torch.fft.rfft(gradient.transpose(1, 2).contiguous(), n=length)
        for_h = (torch.fft.rfft(x, n=length).conj() * spectrum).sum(0)
        for_x = spectrum.mul_(torch.fft.rfft(h, n=length).conj())
        x_gradient = torch.fft.irfft(for_x, n=length)[..., :steps].transpose(1, 2).contiguous()
        return x_gradient, torch.fft.irfft(for_h, n=length)[:, :window].T


def fast_transform_length(least: int) -> int:
    """The smallest even product of the factors 2, 3 and 5 that is at least `least`: real FFTs are fast there."""
    return min(_products_from(least))


def _products_from(least: int) -> Iterable[int]:
    for fives in (1, 5, 25):
        for threes in (1, 3, 9, 27):
            odd = fives * threes
            yield odd * 2 ** max(1, math.ceil(math.log2(least / odd)))
