"""One robot's perceptron compiled with numba: what a robot runs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from fcnet_core.arrays import Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.compiled_layers import COMPILE, denormalise, gelu, linear, normalise, stored
from fcnet_core.policies.mlp.step import layers_of
from fcnet_core.policies.normalisation import Units


class Weights(NamedTuple):
    """Weights (outputs, inputs) and biases (outputs,) of all layers, contiguous, or the loops are not vectorised."""

    weights: tuple[Single, ...]
    biases: tuple[Single, ...]


class Memory(NamedTuple):
    """The last normalised observations (window, observation), oldest first, and scratch of the widest layer's size."""

    window: Single
    scratch: Single  # (2, widest)


@njit(**COMPILE)
def step(observation: Single, action: Single, count: int, units: Units, layers: Weights, memory: Memory) -> None:
    """Write the action for one observation."""
    window, last = memory.window, len(layers.weights) - 1
    for row in range(window.shape[0] - 1):
        window[row] = window[row + 1]
    normalise(observation, units, window[-1])
    source = window.ravel()
    for index in range(last):
        target = memory.scratch[index % 2, : layers.biases[index].size]
        linear(source, layers.weights[index], layers.biases[index], target)
        gelu(target)
        source = target
    linear(source, layers.weights[last], layers.biases[last], action)
    denormalise(action, units)


def numba_step(model: PolicyModel) -> tuple[Any, Weights, Memory]:
    """What a CompiledRuntime of the model is made of."""
    config = model.card.config
    weights, biases = zip(*layers_of(model), strict=True)
    memory = Memory(
        window=np.zeros((config.window, config.observation), dtype=np.float32),
        scratch=np.zeros((2, max(config.hidden)), dtype=np.float32),
    )
    matrices = tuple(stored(np.ascontiguousarray(weight), model.half) for weight in weights)
    return step, Weights(matrices, tuple(biases)), memory
