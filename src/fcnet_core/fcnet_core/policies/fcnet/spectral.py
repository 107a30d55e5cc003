"""The causal spectral convolution (CSC): its mathematics in float64, and its filters in NumPy.

Symbols of the paper: window n, modes m, u_k = exp(2 pi j k / n). The spectrum of the window that ends at step t is
X_k(t) = sum_i x_{t-n+1+i} exp(-2 pi j k i / n), advanced by X_k(t) = u_k (X_k(t-1) + x_t - x_{t-n}); the output is
the real part of the inverse DFT of W X at the window's last sample. Since only that sample is used, W acts through
v_k = sum_l W[k, l] e_l alone, and the whole CSC is one causal filter of length n per channel.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from fcnet_core.arrays import Array, Floats, Mask, Single

Complex = npt.NDArray[np.complex128]


def phase_table(window: int, modes: int) -> Complex:
    """Return rotations (modes, window): entry [k, tau] is u_k ** (tau + 1), with the angle reduced in integers."""
    angles = np.outer(np.arange(modes), np.arange(1, window + 1)) % window
    return np.exp(2j * np.pi * angles / window)


def inverse_dft_last(window: int, modes: int) -> Complex:
    """Return row e (modes,) of the inverse DFT for a real window's last sample: weights 1/n for k = 0, else 2/n."""
    angle = (np.arange(modes) * (window - 1)) % window
    weight = np.full(modes, 2.0 / window)
    weight[0] = 1.0 / window
    return weight * np.exp(2j * np.pi * angle / window)


def folded_weights(weights: npt.ArrayLike, window: int) -> Complex:
    """Fold spectral weights W (..., m, m, d, 2) and e into v (..., m, d): y = Re sum_k v_k X_k."""
    parts = np.asarray(weights, dtype=np.float64)
    return np.einsum("...kld,l->...kd", parts[..., 0] + 1j * parts[..., 1], inverse_dft_last(window, parts.shape[-3]))


def kernel(folded: Complex, window: int) -> Array:
    """Return the impulse response h (..., window, d) of the CSC with weights v (..., m, d).

    y_t = sum_tau h[tau] x_{t - tau}.
    """
    return np.einsum("...kd,kt->...td", folded, phase_table(window, folded.shape[-2])).real


class CausalFilter(Protocol):
    """The memory of the network: the causal filter of every layer, with one step at a time."""

    def mix(self, layer: int, x: Floats) -> Floats:
        """Return the output (..., d) of the layer's spectral convolution for its input x (..., d) of this step."""

    def advance(self) -> None:
        """Go to the next step, after `mix` of every layer."""


class SlidingDft:
    """The Sliding DFT of the paper with weights v (L, m, d), for inputs and outputs (batch, d): see above.

    The spectral state is complex128. In float32 its error grows with time (3e-4 of a spectrum after 1e6 steps), in
    float64 it stays below 1e-10 for a month at 50 Hz.
    """

    def __init__(self, weight: Complex, window: int, batch: int) -> None:
        layers, modes, channels = weight.shape
        self._rotation, self._weight = phase_table(window, modes)[:, :1], weight
        self.spectrum = np.zeros((layers, batch, modes, channels), dtype=np.complex128)
        self._inputs = np.zeros((layers, window, batch, channels))
        self._slot = 0

    def reset(self, chosen: Mask | slice) -> None:
        self.spectrum[:, chosen] = 0
        self._inputs[:, :, chosen] = 0

    def mix(self, layer: int, x: Floats) -> Floats:
        spectrum, oldest = self.spectrum[layer], self._inputs[layer, self._slot]
        spectrum += (x - oldest)[:, None]
        spectrum *= self._rotation
        oldest[:] = x
        return (self._weight[layer] * spectrum).sum(axis=1).real

    def advance(self) -> None:
        self._slot = (self._slot + 1) % self._inputs.shape[1]


BLOCK = 8


class BlockFilter:
    """CausalFilter of kernels (L, n, d) for `batch` robots, with inputs and outputs (batch, d), that reads old inputs
    once per block of steps.

    The sum y_t = sum_tau h[tau] x_{t - tau} is split at the start s of the current block of K steps. The contribution
    of x_{s-1} and older to all K outputs is one matrix product per channel at the start of the block; the block's own
    inputs are added step by step. With K = 1, each step would read a window of inputs per robot and layer.
    """

    def __init__(self, kernels: Single, batch: int) -> None:
        layers, window, channels = kernels.shape
        size = -(-(window - 1) // BLOCK) * BLOCK
        self._recent = np.ascontiguousarray(kernels[:, :BLOCK][:, ::-1])  # oldest first
        padded = np.zeros((layers, channels, size + BLOCK), dtype=np.float32)
        padded[..., :window] = kernels.transpose(0, 2, 1)
        # (L, d, BLOCK, size): the last `size` inputs, oldest first, in the next BLOCK outputs
        weights = sliding_window_view(padded[..., :0:-1], size, axis=2)[:, :, ::-1]
        self._past_kernel = np.ascontiguousarray(weights)
        self._past = np.zeros((layers, channels, size, batch), dtype=np.float32)
        self._block = np.zeros((layers, BLOCK, batch, channels), dtype=np.float32)
        self._carry = np.zeros((layers, BLOCK, batch, channels), dtype=np.float32)
        self._slot = 0
        self._step = 0

    def reset(self, chosen: Mask | slice) -> None:
        self._past[..., chosen] = 0
        self._block[:, :, chosen] = 0
        self._carry[:, :, chosen] = 0

    def mix(self, layer: int, x: Floats) -> Floats:
        block = self._block[layer]
        block[self._step] = x
        taps = min(self._step + 1, self._recent.shape[1])
        newest = block[self._step + 1 - taps : self._step + 1]
        y = np.einsum("tbd,td->bd", newest, self._recent[layer, -taps:])
        y += self._carry[layer, self._step]
        return y

    def advance(self) -> None:
        self._step += 1
        if self._step == BLOCK:
            self._finish_block()

    def _finish_block(self) -> None:
        """Replace the oldest past inputs by the block's, and compute the contribution of the past to the next block."""
        size = self._past.shape[2]
        if size:
            self._past[:, :, self._slot : self._slot + BLOCK] = self._block.transpose(0, 3, 1, 2)
            self._slot = (self._slot + BLOCK) % size
        split = size - self._slot
        for layer in range(len(self._past)):
            past, weights = self._past[layer], self._past_kernel[layer]
            carry = weights[..., :split] @ past[:, self._slot :]
            if self._slot:
                carry += weights[..., split:] @ past[:, : self._slot]
            self._carry[layer] = carry.transpose(1, 2, 0)
        self._step = 0


PIECE = 32  # steps whose outputs are one matrix product: measured the best of 16..64 for windows of 64


class SequenceFilter:
    """CausalFilter of kernels (L, n, d) whose steps are blocks (T, d) of one sequence, by a matrix product per channel.

    It keeps each layer's last inputs for the next block.
    """

    def __init__(self, kernels: Single) -> None:
        layers, window, channels = kernels.shape
        self._matrices = [_toeplitz(kernel) for kernel in kernels]
        self._past = [np.zeros((channels, window - 1), dtype=np.float32)] * layers

    def mix(self, layer: int, x: Floats) -> Floats:
        # The outputs after the block's end, up to whole pieces, are not used.
        past, matrix = self._past[layer], self._matrices[layer]
        channels, reach, _ = matrix.shape
        known = past.shape[1] + len(x)
        inputs = np.zeros((channels, past.shape[1] + -(-len(x) // PIECE) * PIECE), dtype=np.float32)
        inputs[:, : past.shape[1]] = past
        inputs[:, past.shape[1] : known] = x.T
        self._past[layer] = inputs[:, len(x) : known]
        seen = np.ascontiguousarray(sliding_window_view(inputs, reach, axis=1)[:, ::PIECE])  # (d, pieces, reach)
        return np.ascontiguousarray((seen @ matrix).reshape(channels, -1)[:, : len(x)].T)

    def advance(self) -> None:
        """Do nothing: `mix` keeps the inputs."""

    def reset(self) -> None:
        """Forget all inputs."""
        self._past = [np.zeros_like(past) for past in self._past]


def _toeplitz(kernel: Single) -> Single:
    """Return weights (d, n - 1 + PIECE, PIECE) from the inputs of a piece and n - 1 steps before to its outputs."""
    window, channels = kernel.shape
    padded = np.zeros((channels, window + 2 * (PIECE - 1)), dtype=np.float32)
    padded[:, PIECE - 1 : PIECE - 1 + window] = kernel[::-1].T
    return np.ascontiguousarray(sliding_window_view(padded, PIECE, axis=1)[..., ::-1])
