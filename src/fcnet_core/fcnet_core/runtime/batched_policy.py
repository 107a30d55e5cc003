"""One policy for many robots at once: what simulation runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.guard import finite_observation
from fcnet_core.model_file import PolicyModel
from fcnet_core.runtime.block_filter import BlockFilter
from fcnet_core.runtime.folded_network import fold
from fcnet_core.runtime.normalization import joint_targets, network_input
from fcnet_core.runtime.numpy_network import forward

Mask = npt.NDArray[np.bool_]


class BatchedPolicy:
    """The same policy with a memory of its own for each of `batch` robots, in float32."""

    def __init__(self, model: PolicyModel, batch: int) -> None:
        self.model = model
        self.batch = batch
        self._network = fold(model)
        self._memory = BlockFilter(self._network.kernels, batch)
        self._steps = np.zeros(batch, dtype=np.int64)

    def reset(self, mask: Mask | None = None) -> None:
        """Forget the past of the robots in `mask` (batch,), or of all."""
        chosen = np.ones(self.batch, dtype=bool) if mask is None else mask
        self._memory.reset(chosen)
        self._steps[chosen] = 0

    def step(self, observation: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Joint position targets (batch, action) [rad] for observations (batch, observation).

        Raises NonFiniteObservation, with every memory untouched, when an entry is NaN or infinite.
        """
        checked = finite_observation(observation, (self.batch, self._network.shape.observation))
        if self.model.card.window_policy == "reset_every_n":
            full = self._steps == self._network.shape.window
            if full.any():
                self.reset(full)
        self._steps += 1
        return joint_targets(self.model, forward(self._network, self._memory, network_input(self.model, checked)))
