"""One robot's policy in NumPy: the fallback where numba is missing, and the reference for the other runtimes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.guard import finite_observation
from fcnet_core.model_file import PolicyModel
from fcnet_core.runtime.folded_network import fold
from fcnet_core.runtime.normalization import joint_targets, network_input
from fcnet_core.runtime.numpy_network import forward
from fcnet_core.runtime.step_filter import Form, step_filter
from fcnet_core.runtime.window import WindowCounter


class NumpyPolicy:
    """A Policy (see policy.py) that needs NumPy alone.

    It computes in float64: a trained network's float32 rounding, in this order of operations, reaches 2e-6 rad, as much
    as the runtimes may differ.
    """

    def __init__(self, model: PolicyModel, form: Form = "sdft") -> None:
        self.model = model
        self._network = fold(model).double()
        self.memory = step_filter(self._network, form)
        self._window = WindowCounter(model.card)

    def reset(self) -> None:
        """Forget every past observation."""
        self.memory.reset()
        self._window.restart()

    def step(self, observation: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """See Policy."""
        checked = finite_observation(observation, (self._network.shape.observation,))
        if self._window.is_full():
            self.reset()
        self._window.count()
        output = forward(self._network, self.memory, network_input(self.model, checked))
        return joint_targets(self.model, output).astype(np.float32)
