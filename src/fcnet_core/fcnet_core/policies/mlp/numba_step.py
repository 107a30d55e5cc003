"""One robot's perceptron compiled with numba: what a robot runs."""

from __future__ import annotations

import numpy as np
from numba import njit

from fcnet_core.arrays import Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.compiled_layers import COMPILE, gelu, linear, normalise
from fcnet_core.policies.mlp.numpy_step import layers_of


@njit(**COMPILE)
def step(
    observation: Single,
    units: Single,
    clip: np.float32,
    window: Single,
    weights: tuple[Single, ...],
    biases: tuple[Single, ...],
    x: Single,
) -> None:
    """Write the actions to the beginning of `x`, scratch of twice the widest layer.

    units (2, observation): mean and std; window (window, observation): oldest first; weights (outputs, inputs) and
    biases (outputs,) of all layers, contiguous, or the loops are not vectorised.
    """
    for row in range(window.shape[0] - 1):
        window[row] = window[row + 1]
    normalise(observation, units[0], units[1], clip, window[-1])
    half = x.size // 2
    source = window.ravel()
    for index in range(len(weights)):
        start = half * (1 - index % 2)
        target = x[start : start + biases[index].size]
        linear(source, weights[index], biases[index], target)
        if index < len(weights) - 1:
            gelu(target)
        source = target
    x[: source.size] = source


class NumbaStep:
    """A Runtime of one robot that releases the GIL while it steps.

    Making one compiles the step, some seconds the first time on a machine and cached after that.
    """

    def __init__(self, model: PolicyModel) -> None:
        config, scales = model.card.config, model.normalisation.scales
        self._units = np.stack([scales["observation_mean"], scales["observation_std"]])
        self._clip = np.float32(model.normalisation.clip)
        self._action_mean, self._action_scale = scales["action_mean"], scales["action_scale"]
        weights, biases = zip(*layers_of(model), strict=True)
        self._weights, self._biases = tuple(map(np.ascontiguousarray, weights)), tuple(biases)
        self._window = np.zeros((config.window, config.observation), dtype=np.float32)
        self._scratch = np.zeros(2 * max(*config.hidden, config.action), dtype=np.float32)
        self.step(np.zeros(config.observation, dtype=np.float32))
        self.reset()

    def reset(self, mask: Mask | None = None) -> None:
        """See Runtime."""
        self._window[:] = 0

    def step(self, observation: Single) -> Single:
        """See Runtime."""
        step(observation, self._units, self._clip, self._window, self._weights, self._biases, self._scratch)
        action: Single = self._action_mean + self._action_scale * self._scratch[: self._action_mean.size]
        return action
