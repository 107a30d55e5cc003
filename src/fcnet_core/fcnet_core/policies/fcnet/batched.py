"""One policy for many robots at once, or over whole recorded sequences."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fcnet_core.arrays import Floats, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.fcnet.numpy_step import fold, forward

BLOCK = 8


class BlockFilter:
    """A StreamingFilter of kernels (L, n, d) for `batch` robots, with inputs and outputs (batch, d), arranged so that
    old inputs are read once per block of steps.

    The sum y_t = sum_tau h[tau] x_{t - tau} is split at the start s of the current block of K steps: what x_{s-1} and
    older contribute to all K outputs is one matrix product per channel, done when the block begins; what the block's
    own inputs contribute is added step by step. With K = 1 each step would read a window of inputs per robot and layer
    from memory.
    """

    def __init__(self, kernels: Single, batch: int) -> None:
        layers, window, channels = kernels.shape
        self._recent = np.ascontiguousarray(kernels[:, :BLOCK][:, ::-1])  # oldest first
        blocks = -(-(window - 1) // BLOCK)
        self._past_kernel = _past_kernel(kernels, blocks * BLOCK)
        self._past = np.zeros((layers, channels, blocks * BLOCK, batch), dtype=np.float32)
        self._block = np.zeros((layers, BLOCK, batch, channels), dtype=np.float32)
        self._carry = np.zeros((layers, BLOCK, batch, channels), dtype=np.float32)
        self._slot = 0
        self._step = 0

    def reset(self, chosen: Mask) -> None:
        """Forget every input of the robots in `chosen` (batch,)."""
        self._past[..., chosen] = 0
        self._block[:, :, chosen] = 0
        self._carry[:, :, chosen] = 0

    def mix(self, layer: int, x: Single) -> Single:
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


def _past_kernel(kernels: Single, size: int) -> Single:
    """Weights (L, d, BLOCK, size) of the last `size` inputs, oldest first, in the next BLOCK outputs."""
    layers, window, channels = kernels.shape
    weight = np.zeros((layers, channels, BLOCK, size), dtype=np.float32)
    for output in range(BLOCK):
        for age in range(1, min(size, window - 1 - output) + 1):
            weight[:, :, output, size - age] = kernels[:, output + age]
    return weight


class BatchedStep:
    """A Runtime of `batch` robots, each with a memory of its own, in float32: what simulation runs."""

    def __init__(self, model: PolicyModel, batch: int) -> None:
        self._units = model.normalisation
        self._network = fold(model)
        self._memory = BlockFilter(self._network.kernels, batch)
        self._all = np.ones(batch, dtype=np.bool_)

    def reset(self, mask: Mask | None = None) -> None:
        """See Runtime."""
        self._memory.reset(self._all if mask is None else mask)

    def step(self, observation: Single) -> Single:
        """See Runtime."""
        output: Single = self._units.action(forward(self._network, self._memory, self._units.input(observation)))
        return output


SEQUENCE_BLOCK = 512  # steps computed at a time: their activations stay in the cache
PIECE = 32  # steps; a divisor of BLOCK, measured the best of 16..64 for windows of 64


class Sequence:
    """The policy over whole recorded sequences at once: many times faster than step by step.

    The memory is a causal filter of the network's inputs, and in a recording all inputs are known: each layer filters
    the whole sequence before the next begins.
    """

    def __init__(self, model: PolicyModel) -> None:
        self._units = model.normalisation
        self._network = fold(model)
        self._spread = [_spread(kernel) for kernel in self._network.kernels]

    def run(self, observations: Single) -> Single:
        """Actions (T, action) for finite observations (T, observation) after a reset."""
        memory = _SequenceFilter(self._spread)
        blocks = [
            forward(self._network, memory, self._units.input(observations[start : start + SEQUENCE_BLOCK]))
            for start in range(0, len(observations), SEQUENCE_BLOCK)
        ]
        return self._units.action(np.concatenate(blocks)).astype(np.float32)


class _SequenceFilter:
    """A StreamingFilter whose steps are blocks (T, d), T at most BLOCK; it keeps each layer's last inputs for the next.

    Time is cut into pieces of PIECE steps. What a piece adds to its own outputs and to the later ones that its window
    reaches is one matrix product per channel, for all pieces of the block at once.
    """

    def __init__(self, spread: list[Single]) -> None:
        channels, _, outputs = spread[0].shape
        self._spread = spread
        self._past = [np.zeros((channels, outputs // PIECE - 1, PIECE), dtype=np.float32)] * len(spread)

    def mix(self, layer: int, x: Floats) -> Floats:
        """See StreamingFilter; only a sequence's last block may end within a piece."""
        past, spread = self._past[layer], self._spread[layer]
        channels, reach, _ = past.shape
        steps = reach * PIECE + len(x)
        pieces = np.empty((channels, -(-steps // PIECE), PIECE), dtype=np.float32)
        pieces[:, :reach] = past
        by_step = pieces.reshape(channels, -1)
        by_step[:, reach * PIECE : steps] = x.T
        by_step[:, steps:] = 0.0
        self._past[layer] = pieces[:, pieces.shape[1] - reach :]
        added = (pieces @ spread).reshape(channels, -1, reach + 1, PIECE)
        filtered = added[:, reach:, 0].copy()
        for late in range(1, reach + 1):
            filtered += added[:, reach - late : -late, late]
        return np.ascontiguousarray(filtered.reshape(channels, -1)[:, : len(x)].T)

    def advance(self) -> None:
        """See StreamingFilter; the inputs are kept as they come."""


def _spread(kernel: Single) -> Single:
    """Weights (d, PIECE, outputs) of a piece's inputs in the outputs of its own and of the pieces in reach: those of
    each input are the kernel, one step later than those of the input before.
    """
    window, channels = kernel.shape
    outputs = PIECE * (1 + -(-(window - 1) // PIECE))
    padded = np.zeros((channels, PIECE - 1 + outputs), dtype=np.float32)
    padded[:, PIECE - 1 : PIECE - 1 + window] = kernel.T
    return np.ascontiguousarray(sliding_window_view(padded, outputs, axis=1)[:, ::-1])
