"""A multilayer perceptron over a window of stacked observations: behaviour cloning without a recurrent state."""

from itertools import pairwise
from typing import Annotated

from msgspec import Meta

from fcnet_core.policies import PolicyConfig, PolicyType, Shapes, Size, weights_and_biases


class MLPConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network with GELU that sees the last `window` observations, oldest first.

    The defaults have 774,156 parameters, as many as the legged Fourier Controller Network within 2 %.
    """

    window: Size = 16
    hidden: Annotated[tuple[Size, ...], Meta(min_length=1, max_length=1000)] = (512, 256, 256)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Inputs and outputs of the linear layers."""
        return list(pairwise((self.window * self.observation, *self.hidden, self.action)))

    def weight_shapes(self) -> Shapes:
        """Return the shapes of the linear layers 0, 1, ...; the first has window * observation inputs."""
        layers = enumerate(self.sizes)
        return weights_and_biases({f"layers.{layer}": (outputs, inputs) for layer, (inputs, outputs) in layers})


POLICY = PolicyType(__name__, MLPConfig, "network:WindowPerceptron")
