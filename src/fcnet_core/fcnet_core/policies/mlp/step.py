"""The perceptron in NumPy, step by step or over whole recorded sequences, and as a step of an ONNX graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from fcnet_core.arrays import Floats, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.layers import gelu, linear

if TYPE_CHECKING:
    from fcnet_core.policies.onnx_graph import GraphBuilder

Layers = list[tuple[Floats, Floats]]  # weight (outputs, inputs) and bias (outputs,)
SEQUENCE_BLOCK = 512  # steps computed at a time: their stacked windows stay in the cache


def layers_of(model: PolicyModel, dtype: npt.DTypeLike = np.float32) -> Layers:
    """Weight and bias of every layer, in order."""
    weights = {name: weight.astype(dtype, copy=False) for name, weight in model.weights.items()}
    return [(weights[f"layers.{i}.weight"], weights[f"layers.{i}.bias"]) for i in range(len(weights) // 2)]


def forward(layers: Layers, x: Floats) -> Floats:
    """Return network outputs (..., action) for stacked windows (..., window * observation)."""
    for weight, bias in layers[:-1]:
        x = gelu(linear(x, weight, bias))
    return linear(x, *layers[-1])


class Step:
    """NetworkStep that keeps the last observations of each robot."""

    def __init__(self, model: PolicyModel, batch: int, dtype: npt.DTypeLike) -> None:
        self._layers, config = layers_of(model, dtype), model.card.config
        self._windows: Floats = np.zeros((batch, config.window, config.observation), dtype=dtype)

    def reset(self, chosen: Mask | slice) -> None:
        self._windows[chosen] = 0

    def step(self, x: Floats) -> Floats:
        self._windows[:, :-1] = self._windows[:, 1:]
        self._windows[:, -1] = x
        return forward(self._layers, self._windows.reshape(len(x), -1))


class Sequence:
    """The policy on whole recorded sequences."""

    def __init__(self, model: PolicyModel) -> None:
        self._layers, self._window = layers_of(model), model.card.config.window

    def run(self, x: Single) -> Floats:
        """Return outputs (T, action) for normalised observations (T, observation) after a reset."""
        padded = np.concatenate([np.zeros((self._window - 1, x.shape[1]), dtype=np.float32), x])
        windows = sliding_window_view(padded, self._window, axis=0).transpose(0, 2, 1)  # (T, window, observation)
        blocks = [windows[start : start + SEQUENCE_BLOCK] for start in range(0, len(x), SEQUENCE_BLOCK)]
        return np.concatenate([forward(self._layers, block.reshape(len(block), -1)) for block in blocks])


def add_to_graph(g: GraphBuilder, model: PolicyModel) -> str:
    """Add a step to a graph whose caller keeps the window, oldest first; return the name of its output."""
    config = model.card.config
    newest = g.add("Unsqueeze", g.observation(), g.constant(np.array([1])))
    window = g.memory("window", ["batch", config.window, config.observation])
    older = g.add("Slice", window, *(g.constant(np.array([place])) for place in (1, config.window, 1)))
    x = g.add("Flatten", g.keep("window", g.add("Concat", older, newest, axis=1)))
    *hidden, last = layers_of(model)
    for weight, bias in hidden:
        x = g.add("Gelu", g.linear(x, weight, bias))
    return g.linear(x, *last)
