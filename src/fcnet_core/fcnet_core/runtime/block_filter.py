"""The spectral convolutions of many robots, arranged so that old inputs are read once per block of steps.

The sum y_t = sum_tau h[tau] x_{t - tau} is split at the start s of the current block of K steps: what x_{s-1} and older
contribute to all K outputs is one matrix product per channel, done when the block begins; what the block's own inputs
contribute is added step by step. With K = 1 each step would read a window of inputs per robot and layer from memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
BLOCK = 8


class BlockFilter:
    """A StreamingFilter of kernels (L, n, d) for `batch` robots, with inputs and outputs (batch, d)."""

    def __init__(self, kernels: Array, batch: int) -> None:
        layers, window, channels = kernels.shape
        self._recent = np.ascontiguousarray(kernels[:, :BLOCK][:, ::-1])  # oldest first
        blocks = -(-(window - 1) // BLOCK)
        self._past_kernel = _past_kernel(kernels, blocks * BLOCK)
        self._past = np.zeros((layers, channels, blocks * BLOCK, batch), dtype=np.float32)
        self._block = np.zeros((layers, BLOCK, batch, channels), dtype=np.float32)
        self._carry = np.zeros((layers, BLOCK, batch, channels), dtype=np.float32)
        self._slot = 0
        self._step = 0

    def reset(self, chosen: npt.NDArray[np.bool_]) -> None:
        """Forget every input of the robots in `chosen` (batch,)."""
        self._past[..., chosen] = 0
        self._block[:, :, chosen] = 0
        self._carry[:, :, chosen] = 0

    def mix(self, layer: int, x: Array) -> Array:
        """See StreamingFilter."""
        block = self._block[layer]
        block[self._step] = x
        taps = min(self._step + 1, self._recent.shape[1])
        newest = block[self._step + 1 - taps : self._step + 1]
        y = np.einsum("tbd,td->bd", newest, self._recent[layer, -taps:])
        y += self._carry[layer, self._step]
        return y

    def advance(self) -> None:
        """See StreamingFilter."""
        self._step += 1
        if self._step == BLOCK:
            self._finish_block()

    def _finish_block(self) -> None:
        """Put the block's inputs to the past, overwriting the oldest, and work out what the past adds to the next."""
        size = self._past.shape[2]
        if size:
            self._past[:, :, self._slot : self._slot + BLOCK] = self._block.transpose(0, 3, 1, 2)
            self._slot = (self._slot + BLOCK) % size
        split = size - self._slot
        for layer in range(len(self._past)):
            past, kernel = self._past[layer], self._past_kernel[layer]
            carry = kernel[..., :split] @ past[:, self._slot :]
            if self._slot:
                carry += kernel[..., split:] @ past[:, : self._slot]
            self._carry[layer] = carry.transpose(1, 2, 0)
        self._step = 0


def _past_kernel(kernels: Array, size: int) -> Array:
    """Weights (L, d, BLOCK, size) of the last `size` inputs, oldest first, in the next BLOCK outputs."""
    layers, window, channels = kernels.shape
    weight = np.zeros((layers, channels, BLOCK, size), dtype=np.float32)
    for output in range(BLOCK):
        for age in range(1, min(size, window - 1 - output) + 1):
            weight[:, :, output, size - age] = kernels[:, output + age]
    return weight
