"""A multilayer perceptron over a window of stacked observations: behaviour cloning without a recurrent state."""

from __future__ import annotations

from itertools import pairwise

from fcnet_core.policies import PolicyConfig, PolicyType


class MLPConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network that sees the last `window` observations, oldest first, through hidden layers with GELU.

    The defaults have 774,156 parameters, as many as the legged Fourier Controller Network within 2 %.
    """

    observation: int = 70
    action: int = 12
    window: int = 16
    hidden: tuple[int, ...] = (512, 256, 256)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"hidden must name at least one layer of at least 1 unit, not {self.hidden}")

    @property
    def reset_interval(self) -> int:
        """As its context."""
        return self.window

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
