"""A multilayer perceptron over a window of stacked observations: behaviour cloning without a recurrent state."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from msgspec import Meta

from fcnet_core.policies import PolicyConfig, PolicyType, Size


class MLPConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network that sees the last `window` observations, oldest first, through hidden layers with GELU.

    The defaults have 774,156 parameters, as many as the legged Fourier Controller Network within 2 %.
    """

    observation: Size = 70
    action: Size = 12
    window: Size = 16
    hidden: Annotated[tuple[Size, ...], Meta(min_length=1, max_length=1000)] = (512, 256, 256)

    @property
    def memory_steps(self) -> int:
        """The window without the present step."""
        return self.window - 1

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Inputs and outputs of the linear layers."""
        return list(pairwise((self.window * self.observation, *self.hidden, self.action)))

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Weights (outputs, inputs) and biases of the linear layers 0, 1, ...; the first sees window * observation."""
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (inputs, outputs) in enumerate(self.sizes):
            shapes |= {f"layers.{layer}.weight": (outputs, inputs), f"layers.{layer}.bias": (outputs,)}
        return shapes


POLICY = PolicyType(
    package=__name__,
    config=MLPConfig,
    network="network:WindowPerceptron",
    step="step:Step",
    sequence="step:Sequence",
    numba="numba_step:numba_step",
    onnx="step:add_to_graph",
)
