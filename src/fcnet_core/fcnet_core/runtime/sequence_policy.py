"""A policy over whole recorded sequences at once: what judges bags, many times faster than step by step.

The network's memory is a causal filter of its inputs, and in a recording all inputs are known: each layer filters the
whole sequence before the next begins.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.direct_filter import filter_causally
from fcnet_core.guard import finite_observation
from fcnet_core.model_file import PolicyModel
from fcnet_core.runtime.folded_network import fold
from fcnet_core.runtime.normalization import joint_targets, network_input
from fcnet_core.runtime.numpy_network import forward

BLOCK = 512  # steps computed at a time: their activations stay in the cache


class SequencePolicy:
    """Steps like any runtime of the model, from a cold start, with all observations given beforehand."""

    def __init__(self, model: PolicyModel) -> None:
        self.model = model
        self._network = fold(model)
        self._kernels = np.ascontiguousarray(self._network.kernels)

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
        memory = _SequenceFilter(self._kernels)
        blocks = [
            forward(self._network, memory, network_input(self.model, observations[start : start + BLOCK]))
            for start in range(0, len(observations), BLOCK)
        ]
        return joint_targets(self.model, np.concatenate(blocks)).astype(np.float32)


class _SequenceFilter:
    """A StreamingFilter whose steps are blocks (T, d); it keeps each layer's last inputs for the next block."""

    def __init__(self, kernels: npt.NDArray[np.float32]) -> None:
        layers, window, channels = kernels.shape
        self._kernels = kernels
        self._past = [np.zeros((window - 1, channels), dtype=np.float32)] * layers

    def mix(self, layer: int, x: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """See StreamingFilter."""
        past = self._past[layer]
        inputs = np.concatenate([past, x]).astype(np.float32)
        self._past[layer] = inputs[len(inputs) - len(past) :]
        filtered: npt.NDArray[np.floating] = filter_causally(inputs[None], self._kernels[layer])[0, len(past) :]
        return filtered

    def advance(self) -> None:
        """See StreamingFilter; the inputs are kept as they come."""
