"""One robot's policy in ONNX Runtime: the same graph that `fcnet export` writes, with its memory kept here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnxruntime

from fcnet_core.guard import finite_observation
from fcnet_core.model_file import PolicyModel
from fcnet_core.runtime.onnx_graph import INPUTS, OUTPUTS, onnx_model
from fcnet_core.runtime.window import WindowCounter


class OnnxPolicy:
    """A Policy (see policy.py) on one CPU thread of ONNX Runtime."""

    def __init__(self, model: PolicyModel) -> None:
        self.model = model
        self._shape = shape = model.card.shape
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            onnx_model(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = np.zeros((shape.window, shape.layers, 1, shape.hidden), dtype=np.float32)
        self._spectrum: list[npt.NDArray[np.float64]] = []
        self._window = WindowCounter(model.card)
        self._slot = 0
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._inputs[:] = 0
        self._spectrum = [np.zeros((self._shape.layers, 1, self._shape.modes, self._shape.hidden))] * 2
        self._slot = 0
        self._window.restart()

    def step(self, observation: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """See Policy."""
        checked = finite_observation(observation, (self._shape.observation,))
        if self._window.is_full():
            self.reset()
        self._window.count()
        feed = dict(zip(INPUTS, [checked[None], self._inputs[self._slot], *self._spectrum], strict=True))
        action, self._inputs[self._slot], *self._spectrum = self._session.run(OUTPUTS, feed)
        self._slot = (self._slot + 1) % self._shape.window
        return action[0]
