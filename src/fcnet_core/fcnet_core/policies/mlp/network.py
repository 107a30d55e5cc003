"""The perceptron in PyTorch, on whole sequences."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import gelu, pad

from fcnet_core.policies.mlp import MLPConfig


class WindowPerceptron(nn.Module):
    """Maps normalised observations (B, T, observation) to normalised actions (B, T, action).

    What is older than the sequence is zero, the mean of an observation.
    """

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.window = config.window
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in config.sizes)

    def forward(self, observation: Tensor) -> Tensor:
        x = pad(observation, (0, 0, self.window - 1, 0)).unfold(1, self.window, 1)  # (B, T, observation, window)
        x = x.transpose(2, 3).flatten(2)  # (B, T, window * observation), oldest first
        for layer in self.layers[:-1]:
            x = gelu(layer(x))
        output: Tensor = self.layers[-1](x)
        return output
