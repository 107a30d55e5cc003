"""The perceptron in NumPy: for one robot, for many, and over whole recorded sequences."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fcnet_core.arrays import Floats, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.layers import gelu, linear

Layers = list[tuple[Floats, Floats]]  # weight (outputs, inputs) and bias (outputs,)
SEQUENCE_BLOCK = 512  # steps computed at a time: their stacked windows stay in the cache


def layers_of(model: PolicyModel) -> Layers:
    """Weight and bias of every layer, in order."""
    count = len(model.weights) // 2
    return [(model.weights[f"layers.{i}.weight"], model.weights[f"layers.{i}.bias"]) for i in range(count)]


def forward(layers: Layers, x: Floats) -> Floats:
    """Network outputs (..., action) for stacked windows (..., window * observation)."""
    for weight, bias in layers[:-1]:
        x = gelu(linear(x, weight, bias))
    return linear(x, *layers[-1])


class BatchedStep:
    """A Runtime of `batch` robots in float32, each with the last normalised observations of its own."""

    def __init__(self, model: PolicyModel, batch: int) -> None:
        self._units, self._layers = model.normalisation, layers_of(model)
        config = model.card.config
        self._windows = np.zeros((batch, config.window, config.observation), dtype=self._layers[0][0].dtype)

    def reset(self, mask: Mask | None = None) -> None:
        """See Runtime."""
        self._windows[... if mask is None else mask] = 0

    def step(self, observation: Single) -> Single:
        """See Runtime."""
        self._windows[:, :-1] = self._windows[:, 1:]
        self._windows[:, -1] = self._units.input(observation)
        output = forward(self._layers, self._windows.reshape(len(self._windows), -1))
        return self._units.action(output).astype(np.float32)


class NumpyStep(BatchedStep):
    """A Runtime of one robot, in float64: the fallback without numba, and the reference of the other runtimes."""

    def __init__(self, model: PolicyModel) -> None:
        super().__init__(model, 1)
        self._layers = [(weight.astype(np.float64), bias.astype(np.float64)) for weight, bias in self._layers]
        self._windows = self._windows.astype(np.float64)

    def step(self, observation: Single) -> Single:
        """See Runtime."""
        action: Single = super().step(observation)[0]
        return action


class Sequence:
    """The policy over whole recorded sequences."""

    def __init__(self, model: PolicyModel) -> None:
        self._units, self._layers, self._config = model.normalisation, layers_of(model), model.card.config

    def run(self, observations: Single) -> Single:
        """Actions (T, action) for finite observations (T, observation) after a reset."""
        window = self._config.window
        padded = np.zeros((window - 1 + len(observations), self._config.observation), dtype=np.float32)
        padded[window - 1 :] = self._units.input(observations)
        windows = sliding_window_view(padded, window, axis=0).transpose(0, 2, 1)  # (T, window, observation)
        outputs = [
            forward(self._layers, windows[start : start + SEQUENCE_BLOCK].reshape(-1, windows[0].size))
            for start in range(0, len(observations), SEQUENCE_BLOCK)
        ]
        return self._units.action(np.concatenate(outputs)).astype(np.float32)
