"""The perceptron in PyTorch."""

from torch import Tensor, nn
from torch.nn.functional import gelu

from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.policies.network import StackedNetwork


class WindowPerceptron(StackedNetwork):
    """Linear layers with GELU between them."""

    def __init__(self, config: MLPConfig) -> None:
        super().__init__(config.window, config.observation)
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in config.sizes)

    def act(self, stacked: Tensor) -> Tensor:
        x = stacked
        for layer in self.layers[:-1]:
            x = gelu(layer(x))
        output: Tensor = self.layers[-1](x)
        return output
