"""A step of the perceptron as an ONNX graph, and the runtime that keeps its window."""

from __future__ import annotations

import numpy as np
import onnx

from fcnet_core.arrays import Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.mlp.numpy_step import layers_of
from fcnet_core.policies.onnx_graph import SINGLE, GraphBuilder, session

MEMORY = """
With B robots and window n:
input  observation  (B, observation)         float32, raw
       window       (B, n, observation)      float32, the `next_window` of the step before; zeros at first
output action       (B, action)              float32
       next_window  (B, n, observation)      float32
A card with window policy reset_every_n asks the caller to set the window to zero before every n-th step after the last
reset.
"""


def onnx_graph(model: PolicyModel) -> onnx.ModelProto:
    """The graph that MEMORY describes."""
    g, config = GraphBuilder(), model.card.config
    newest = g.add("Unsqueeze", g.normalised(model), g.constant(np.array([1])))
    older = g.add("Slice", "window", *(g.constant(np.array([place])) for place in (1, config.window, 1)))
    x = g.add("Flatten", g.add("Concat", older, newest, output="next_window", axis=1))
    *hidden, last = layers_of(model)
    for weight, bias in hidden:
        x = g.add("Gelu", g.linear(x, weight, bias))
    g.action(model, g.linear(x, *last))
    window = ["batch", config.window, config.observation]
    inputs = [("observation", SINGLE, ["batch", config.observation]), ("window", SINGLE, window)]
    outputs = [("action", SINGLE, ["batch", config.action]), ("next_window", SINGLE, window)]
    return g.model(model, inputs, outputs, MEMORY)


class OnnxStep:
    """A Runtime of one robot on one CPU thread of ONNX Runtime."""

    def __init__(self, model: PolicyModel) -> None:
        self._session = session(onnx_graph(model))
        self._window = np.zeros((1, model.card.config.window, model.card.config.observation), dtype=np.float32)

    def reset(self, mask: Mask | None = None) -> None:
        """See Runtime."""
        self._window = np.zeros_like(self._window)

    def step(self, observation: Single) -> Single:
        """See Runtime."""
        feed = {"observation": observation[None], "window": self._window}
        action, self._window = self._session.run(("action", "next_window"), feed)
        result: Single = action[0]
        return result
