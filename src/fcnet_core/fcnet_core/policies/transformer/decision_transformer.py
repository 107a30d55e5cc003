"""The Decision Transformer's network: return to go, state and action of every step as three tokens, in PyTorch."""

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from fcnet_core.policies.transformer.network import BlockStack


class DecisionTransformer(nn.Module):
    """Maps returns to go (B, K, 1), states (B, K, state), actions (B, K, action) and timesteps (B, K), whole numbers
    below `longest`, to the actions (B, K, action) within +-1 that a state asks for, each after its return and state.

    As published (Chen et al. 2021): an embedding of the absolute timestep is added to the three tokens of a step. Its
    heads for states and returns, which no loss uses, are left out. Because of the timesteps, and unlike in the network
    with one token a step, kept keys and values are exact only while nothing leaves the context of K steps.
    """

    def __init__(
        self, state: int, action: int, d: int = 128, layers: int = 3, heads: int = 1, longest: int = 1000
    ) -> None:
        super().__init__()
        self.embed_return = nn.Linear(1, d)
        self.embed_state = nn.Linear(state, d)
        self.embed_action = nn.Linear(action, d)
        self.embed_timestep = nn.Embedding(longest, d)
        self.embed_norm = nn.LayerNorm(d)
        self.stack = BlockStack(d, layers, heads, activation=relu)
        self.head = nn.Linear(d, action)

    def forward(self, returns: Tensor, state: Tensor, action: Tensor, timestep: Tensor, visible: Tensor) -> Tensor:
        """Actions of every step; `visible` (B, K) is False where a sequence is padded."""
        parts = [self.embed_return(returns), self.embed_state(state), self.embed_action(action)]
        tokens = torch.stack(parts, dim=2) + self.embed_timestep(timestep)[:, :, None]  # (B, K, 3, d)
        x = self.stack(self.embed_norm(tokens.flatten(1, 2)), visible.repeat_interleave(3, dim=1))
        output: Tensor = torch.tanh(self.head(x[:, 1::3]))
        return output
