"""The Transformer in PyTorch, on whole sequences, with the block stack that other token layouts share."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from fcnet_core.policies.transformer import EXPANSION, TransformerConfig

INITIAL_STD = 0.02  # of the weights of a block, as in GPT-2
gelu_tanh = partial(gelu, approximate="tanh")


class CausalTransformer(nn.Module):
    """Maps normalised observations (B, T, observation) to normalised actions (B, T, action), causally, any T >= 1.

    One token per step. A step attends to the last `window` steps in every layer, see the package; there is no dropout.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.embed = nn.Linear(config.observation, config.hidden)
        self.embed_norm = nn.LayerNorm(config.hidden)
        self.stack = BlockStack(config.hidden, config.layers, config.heads, config.window)
        self.head = nn.Linear(config.hidden, config.action)

    def forward(self, observation: Tensor) -> Tensor:
        output: Tensor = self.head(self.stack(self.embed_norm(self.embed(observation))))
        return output


class BlockStack(nn.Module):
    """GPT-2's blocks and final LayerNorm, without positions, on tokens (B, N, d), initialised as GPT-2.

    window: number of last tokens to which a token attends, including itself; None: all. activation: of the perceptrons.
    """

    def __init__(
        self,
        d: int,
        layers: int,
        heads: int,
        window: int | None = None,
        activation: Callable[[Tensor], Tensor] = gelu_tanh,
    ) -> None:
        super().__init__()
        self.window = window
        self.layers = nn.ModuleList(Block(d, heads, activation) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        for name, weight in self.layers.named_parameters():
            if name.endswith(("project.weight", "contract.weight")):  # what is added to the residual stream
                nn.init.normal_(weight, std=INITIAL_STD / math.sqrt(2 * layers))
            elif name.endswith(("qkv.weight", "expand.weight")):
                nn.init.normal_(weight, std=INITIAL_STD)
            elif name.endswith(".bias"):
                nn.init.zeros_(weight)

    def forward(self, x: Tensor, visible: Tensor | None = None) -> Tensor:
        """Return the tokens' features; `visible` (B, N) is False for padding, to which no other token attends."""
        mask = self._mask(x, visible)
        for layer in self.layers:
            x = layer(x, mask)
        features: Tensor = self.norm(x)
        return features

    def _mask(self, x: Tensor, visible: Tensor | None) -> Tensor | None:
        """Return the attention mask (..., N, N), or None if every token attends to itself and to all before it."""
        tokens = x.shape[1]
        if visible is None and (self.window is None or tokens <= self.window):
            return None
        mask = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).tril()
        if self.window is not None:
            mask = mask.triu(1 - self.window)
        if visible is not None:  # padding attends to itself, because a softmax needs an entry
            itself = torch.eye(tokens, dtype=torch.bool, device=x.device)
            mask = mask & (visible[:, None, None, :] | itself)
        return mask


class Block(nn.Module):
    """x += Attention(LN(x)), then x += Perceptron(LN(x)), on (B, N, d)."""

    def __init__(self, d: int, heads: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.heads, self.activation = heads, activation
        self.norm1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.project = nn.Linear(d, d)
        self.norm2 = nn.LayerNorm(d)
        self.expand = nn.Linear(d, EXPANSION * d)
        self.contract = nn.Linear(EXPANSION * d, d)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (B, H, N, d / H)
        with torch.autocast("cpu", enabled=False):  # the gradient in bfloat16 takes seven times as long there
            if x.device.type == "cpu":
                q, k, v = (part.to(self.qkv.weight.dtype) for part in (q, k, v))
            mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.project(mixed.transpose(1, 2).flatten(2))
        output: Tensor = x + self.contract(self.activation(self.expand(self.norm2(x))))
        return output
