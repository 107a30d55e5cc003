"""One robot's perceptron compiled with numba, the default on a robot."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from fcnet_core.arrays import Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.compiled_layers import COMPILE, StepData, denormalise, gelu, linear, normalise, stored
from fcnet_core.policies.mlp.step import layers_of
from fcnet_core.policies.simd import packed, whole


class Weights(NamedTuple):
    """Weights, as `stored`, and biases (outputs,) of all layers."""

    weights: tuple[Any, ...]
    biases: tuple[Single, ...]


class Memory(NamedTuple):
    """The last normalised observations (window, observation), oldest first, and the work space of a step."""

    window: Single
    scratch: Single  # (2, the largest of observation and hidden sizes)


@njit(cache=True, **COMPILE)
def step(observation: Single, action: Single, count: int, data: StepData) -> bool:
    """Write the action for one observation; return False, with the memory unchanged, if that is not finite."""
    units, layers, memory = data.units, data.weights, data.memory
    window, last = memory.window, len(layers.weights) - 1
    scaled = memory.scratch[0, : observation.size]
    if not normalise(observation, units, scaled):
        return False
    for row in range(window.shape[0] - 1):
        window[row] = window[row + 1]
    window[-1] = scaled
    source = window.ravel()
    for index in range(last):
        target = memory.scratch[index % 2, : layers.biases[index].size]
        linear(source, layers.weights[index], layers.biases[index], target)
        gelu(target)
        source = target
    linear(source, layers.weights[last], layers.biases[last], action)
    denormalise(action, units)
    return True


def numba_step(model: PolicyModel) -> tuple[Any, Weights, Memory]:
    """Return the compiled step, the weights and the cleared memory of a model, for CompiledRuntime."""
    config = model.card.config
    weights, biases = zip(*layers_of(model), strict=True)
    memory = Memory(
        window=np.zeros((config.window, config.observation), dtype=np.float32),
        scratch=np.zeros((2, whole(max(config.observation, *config.hidden))), dtype=np.float32),
    )
    arrays = packed([*(stored(weight, model.half) for weight in weights), *biases])
    layers = Weights(tuple(arrays[: len(weights)]), tuple(arrays[len(weights) :]))
    return step, layers, Memory(*packed(list(memory)))
