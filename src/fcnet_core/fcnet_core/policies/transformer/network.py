"""The Transformer in PyTorch, with the block stack that other token layouts share."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad, scaled_dot_product_attention

from fcnet_core.policies.attention import Block, attention
from fcnet_core.policies.network import PolicyNetwork, State, ring_of
from fcnet_core.policies.transformer import EXPANSION, TransformerConfig

INITIAL_STD = 0.02  # of the weights of a block, as in GPT-2
gelu_tanh = partial(gelu, approximate="tanh")


class CausalTransformer(PolicyNetwork):
    """One token per step. A step attends to the last `window` steps in every layer, see the package; no dropout.

    Memory: steps (B,) since the reset, and a ring for each layer (window - 1, B, 2 d) of the keys and values of the
    last steps.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self._config = config
        self.embed = nn.Linear(config.observation, config.hidden)
        self.embed_norm = nn.LayerNorm(config.hidden)
        self.stack = BlockStack(config.hidden, config.layers, config.heads)
        self.head = nn.Linear(config.hidden, config.action)

    def cold(self, batch: int) -> State:
        state = {"steps": torch.zeros(batch, dtype=torch.int64, device=self.embed.weight.device)}
        past = self._config.window - 1
        if past:
            layers = range(self._config.layers)
            state |= {f"keys_values_{i}": self.zeros(past, batch, 2 * self._config.hidden) for i in layers}
        return state

    def forward(self, observation: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        (robots, steps), past = observation.shape[:2], self._config.window - 1
        x, rings = self.embed_norm(self.embed(observation)), {}
        mask = band(steps, steps, self._config.window, x.device) if steps > self._config.window else None
        before: Tensor | None = None
        if state and past:
            mask = band(steps, past + steps, self._config.window, x.device)
            known = torch.arange(-past, 0, device=x.device) + state["steps"][:, None] >= 0  # (B, past)
            mask = mask & pad(known, (0, steps), value=True)[:, None, None]
        for layer, block in enumerate(self.stack.layers):
            name = f"keys_values_{layer}"
            before = state[name].transpose(0, 1) if state and past else None
            x, keys_values = block(x, mask, before)
            if past:
                rings[name] = ring_of(keys_values, past)
        started = 0 if state is None else state["steps"]
        counted = started + torch.full((robots,), steps, device=x.device)
        return self.head(self.stack.norm(x)), {"steps": counted, **rings}

    def step(self, observation: Tensor, state: State) -> tuple[Tensor, State]:
        x = self.embed_norm(self.embed(observation))[:, None]  # (B, 1, d)
        places = torch.arange(1 - self._config.window, 1, device=x.device)  # 0: this step
        known = (places + state["steps"][:, None] >= 0)[:, None, None]  # (B, 1, 1, window)
        rows = {}
        for layer, block in enumerate(self.stack.layers):
            name = f"keys_values_{layer}"
            before = state[name].transpose(0, 1) if name in state else None
            x, keys_values = block(x, known, before)
            if name in state:
                rows[name] = keys_values[:, -1]
        return self.head(self.stack.norm(x[:, 0])), {"steps": state["steps"] + 1, **rows}


def band(queries: int, keys: int, window: int, device: torch.device) -> Tensor:
    """Return the mask (queries, keys) of the last keys, `window` of them up to each query's own."""
    offset = keys - queries
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(offset).triu(offset + 1 - window)


class BlockStack(nn.Module):
    """GPT-2's blocks and final LayerNorm, without positions, on tokens (B, N, d), initialised as GPT-2.

    activation: of the perceptrons.
    """

    def __init__(self, d: int, layers: int, heads: int, activation: Callable[[Tensor], Tensor] = gelu_tanh) -> None:
        super().__init__()
        self.layers = nn.ModuleList(PreNormBlock(d, heads, activation) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        for name, weight in self.layers.named_parameters():
            if name.endswith(("project.weight", "contract.weight")):  # what is added to the residual stream
                nn.init.normal_(weight, std=INITIAL_STD / math.sqrt(2 * layers))
            elif name.endswith(("qkv.weight", "expand.weight")):
                nn.init.normal_(weight, std=INITIAL_STD)
            elif name.endswith(".bias"):
                nn.init.zeros_(weight)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Return the tokens' features; `visible` (B, N) is False for padding, to which no other token attends."""
        tokens = x.shape[1]
        itself = torch.eye(tokens, dtype=torch.bool, device=x.device)  # also of padding: a softmax needs an entry
        mask = band(tokens, tokens, tokens, x.device) & (visible[:, None, None, :] | itself)
        for layer in self.layers:
            x, _ = layer(x, mask)
        features: Tensor = self.norm(x)
        return features


class PreNormBlock(Block):
    """x += Attention(LN(x)), then x += Perceptron(LN(x)), on (B, N, d)."""

    def __init__(self, d: int, heads: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__(d, heads, EXPANSION * d)
        self.activation = activation

    def forward(self, x: Tensor, mask: Tensor | None, before: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the features (B, N, d), and the keys and values of all tokens (B, M + N, 2 d).

        before: keys and values of M earlier tokens; mask (..., N, M + N): pairs that attend, None: all up to a token's
        own.
        """
        queries, keys_values = self.qkv(self.norm1(x)).split((x.shape[-1], 2 * x.shape[-1]), dim=-1)
        if before is not None:
            keys_values = torch.cat([before.to(keys_values), keys_values], dim=1)
        q = queries.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, N, d / H)
        k, v = keys_values.unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if x.shape[1] == 1 and mask is not None:  # a step
            mixed = attention(q, k, v, mask)
        else:
            with torch.autocast("cpu", enabled=False):  # the gradient in bfloat16 takes seven times as long there
                if x.device.type == "cpu":
                    q, k, v = (part.to(self.qkv.weight.dtype) for part in (q, k, v))
                mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.project(mixed.transpose(1, 2).flatten(2))
        return x + self.contract(self.activation(self.expand(self.norm2(x)))), keys_values
