"""A policy over whole recorded sequences at once: what judges bags, many times faster than step by step.

The network's memory is a causal filter of its inputs, and in a recording all inputs are known: each layer filters the
whole sequence before the next begins.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from fcnet_core.guard import finite_observation
from fcnet_core.model_file import PolicyModel
from fcnet_core.runtime.folded_network import fold
from fcnet_core.runtime.normalization import joint_targets, network_input
from fcnet_core.runtime.numpy_network import forward

BLOCK = 512  # steps computed at a time: their activations stay in the cache
PIECE = 32  # steps; a divisor of BLOCK, measured the best of 16..64 for windows of 64


class SequencePolicy:
    """Steps like any runtime of the model, from a cold start, with all observations given beforehand."""

    def __init__(self, model: PolicyModel) -> None:
        self.model = model
        self._network = fold(model)
        self._spread = [_spread(kernel) for kernel in self._network.kernels]

    def actions(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Joint position targets (T, action) [rad] for observations (T, observation), the first one after a reset.

        Raises NonFiniteObservation when an entry is NaN or infinite.
        """
        steps = len(np.asarray(observations))
        shape = self._network.shape
        checked = finite_observation(observations, (steps, shape.observation))
        length = shape.window if self.model.card.window_policy == "reset_every_n" else max(steps, 1)
        parts = [self._run(checked[start : start + length]) for start in range(0, steps, length)]
        return np.concatenate(parts) if parts else np.empty((0, shape.action), dtype=np.float32)

    def _run(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        memory = _SequenceFilter(self._spread)
        blocks = [
            forward(self._network, memory, network_input(self.model, observations[start : start + BLOCK]))
            for start in range(0, len(observations), BLOCK)
        ]
        return joint_targets(self.model, np.concatenate(blocks)).astype(np.float32)


class _SequenceFilter:
    """A StreamingFilter whose steps are blocks (T, d), T at most BLOCK; it keeps each layer's last inputs for the next.

    Time is cut into pieces of PIECE steps. What a piece adds to its own outputs and to the later ones that its window
    reaches is one matrix product per channel, for all pieces of the block at once.
    """

    def __init__(self, spread: list[npt.NDArray[np.float32]]) -> None:
        channels, _, outputs = spread[0].shape
        self._spread = spread
        self._past = [np.zeros((channels, outputs // PIECE - 1, PIECE), dtype=np.float32)] * len(spread)

    def mix(self, layer: int, x: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
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


def _spread(kernel: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Weights (d, PIECE, outputs) of a piece's inputs in the outputs of its own and of the pieces in reach: those of
    each input are the kernel, one step later than those of the input before.
    """
    window, channels = kernel.shape
    outputs = PIECE * (1 + -(-(window - 1) // PIECE))
    padded = np.zeros((channels, PIECE - 1 + outputs), dtype=np.float32)
    padded[:, PIECE - 1 : PIECE - 1 + window] = kernel.T
    return np.ascontiguousarray(sliding_window_view(padded, outputs, axis=1)[:, ::-1])
