"""The StARformer in PyTorch, on whole sequences, with the encoder that its image form shares."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from fcnet_core.policies.attention import attention
from fcnet_core.policies.starformer import EXPANSION, Connection, StarformerConfig, has_pure_state, poolings

INITIAL_STD = 0.02  # of linear weights


class Starformer(nn.Module):
    """Maps normalised observations (B, T, observation) to normalised actions (B, T, action), causally, any T >= 1.

    A step sees the last `window` steps, recomputed with the time vectors of their places in that window. To train on
    sequences longer than the window therefore takes `window` times the work of the sequence transformer.
    """

    _entries: Tensor

    def __init__(self, config: StarformerConfig) -> None:
        super().__init__()
        self._window = config.window
        self.register_buffer("_entries", torch.from_numpy(config.state_entries), persistent=False)
        self.tokenizer = Tokenizer(config)
        pure = has_pure_state(config.connection)
        self.state = nn.Linear(len(config.state_entries), config.hidden) if pure else None
        self.encoder = Encoder(
            tokens=config.step_tokens,
            connection=config.connection,
            layers=config.layers,
            hidden=config.hidden,
            heads=config.heads,
            token_width=config.token_width,
            token_heads=config.token_heads,
            time_table=config.time_table,
        )
        self.head = nn.Linear(config.hidden, config.action)
        initialise(self)

    def forward(self, observation: Tensor) -> Tensor:
        n = self._window
        steps = list(self.encoder.pool(self.tokenizer(observation)))
        if self.state is not None:
            steps.append(self.state(observation[..., self._entries]))
        features = self.encoder(*self._parts([step[:, :n] for step in steps]))
        if observation.shape[1] > n:
            windows = [step.unfold(1, n, 1)[:, 1:].transpose(2, 3) for step in steps]  # (B, T - n, n, D)
            newest = self.encoder(*self._parts([window.flatten(0, 1) for window in windows]))[:, -1]
            features = torch.cat([features, newest.unflatten(0, windows[0].shape[:2])], dim=1)
        output: Tensor = self.head(features)
        return output

    def _parts(self, steps: list[Tensor]) -> tuple[list[Tensor], Tensor | None]:
        """Pooled vectors, and the pure state where there is one."""
        return (steps, None) if self.state is None else (steps[:-1], steps[-1])


class Tokenizer(nn.Module):
    """Observations (B, T, observation) to tokens (B, T, P, d): last action, groups or scalars, reward."""

    _last_action: Tensor
    _entries: Tensor
    _tokens: Tensor

    def __init__(self, config: StarformerConfig) -> None:
        super().__init__()
        d, entries, tokens = config.token_width, len(config.state_entries), len(config.groups)
        self._size, self._reward, scalars = config.observation, config.reward, config.tokens == "scalars"
        self.register_buffer("_last_action", torch.tensor(config.last_action), persistent=False)
        self.register_buffer("_entries", torch.from_numpy(config.state_entries), persistent=False)
        self.register_buffer("_tokens", torch.from_numpy(config.state_tokens), persistent=False)
        self.action = nn.Linear(len(config.last_action), d)
        self.weight = nn.Parameter(nn.init.trunc_normal_(torch.empty(d, 1 if scalars else entries), std=INITIAL_STD))
        self.bias = nn.Parameter(torch.zeros((d,) if scalars else (tokens, d)))
        self.positions = nn.Parameter(torch.zeros(entries, d)) if scalars else None
        self.reward = None if config.reward is None else nn.Linear(1, d)

    def forward(self, observation: Tensor) -> Tensor:
        bias = self.bias if self.positions is None else self.bias + self.positions  # (tokens, d)
        block = self.weight.new_zeros(self._size, *bias.shape)  # the linear layers of all tokens as one
        block[self._entries, self._tokens] = self.weight.t()
        state = linear(observation, block.flatten(1).t(), bias.flatten()).unflatten(-1, bias.shape)
        tokens = [self.action(observation[..., self._last_action]).unsqueeze(-2), state]
        if self.reward is not None and self._reward is not None:
            tokens.append(torch.tanh(self.reward(observation[..., self._reward, None])).unsqueeze(-2))
        return torch.cat(tokens, dim=-2)


class Encoder(nn.Module):
    """The step transformer, its pooling, and the sequence transformer; see the package for connections."""

    def __init__(
        self,
        tokens: int,
        connection: Connection,
        layers: int,
        hidden: int,
        heads: int,
        token_width: int,
        token_heads: int,
        time_table: int,
    ) -> None:
        super().__init__()
        self._connection = connection
        self.step_layers = nn.ModuleList(Block(token_width, token_heads) for _ in range(layers))
        self.pooling = nn.ModuleList(
            Pooling(tokens, token_width, hidden, connection != "stack") for _ in range(poolings(connection, layers))
        )
        self.time = nn.Parameter(torch.zeros(time_table, hidden))
        self.sequence_layers = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def pool(self, tokens: Tensor) -> list[Tensor]:
        """Run only the step transformer: g of every pooling (B, T, D), without time, from tokens (B, T, P, d)."""
        pooled = []
        x = tokens.flatten(0, 1)
        for layer, block in enumerate(self.step_layers):
            x = block(x)
            if self._connection != "stack":
                pooled.append(self.pooling[layer](x))
        if self._connection == "stack":
            pooled.append(self.pooling[0](x))
        return [g.unflatten(0, tokens.shape[:2]) for g in pooled]

    def forward(self, pooled: list[Tensor], state: Tensor | None) -> Tensor:
        """Return features (B, n, D) of a window's n steps, from g of every pooling and the pure state, (B, n, D) each.

        The sequence transformer uses g only for keys and values.
        """
        steps = pooled[0].shape[1]
        if steps > len(self.time):
            raise ValueError(
                f"the sequence has {steps} steps, the network's time table {len(self.time)}; give at most as many, or "
                "train with a longer time_table"
            )
        time = self.time[:steps]
        visible = torch.ones(steps, steps, dtype=torch.bool, device=time.device).tril()
        h = torch.zeros_like(pooled[0]) if state is None else state + time
        for layer, block in enumerate(self.sequence_layers):
            if layer < len(pooled):
                g = pooled[layer] if self._connection == "fusion" else pooled[layer] + time
            if self._connection == "layer_wise":
                h = block(h, torch.cat([visible, visible], dim=1), g)
            else:
                h = block(h + g if layer < len(pooled) else h, visible)
        output: Tensor = self.norm(h)
        return output


class Pooling(nn.Module):
    """Tokens (N, P, d) to one vector (N, D): LN on each where `normed`, linear on all of them, LN."""

    def __init__(self, tokens: int, token_width: int, hidden: int, normed: bool) -> None:
        super().__init__()
        self.token_norm = nn.LayerNorm(token_width) if normed else None
        self.project = nn.Linear(tokens * token_width, hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.token_norm is None else self.token_norm(x)
        output: Tensor = self.norm(self.project(x.flatten(1)))
        return output


class Block(nn.Module):
    """x += Attention(LN(x)), then x += Perceptron(LN(x)), on (N, n, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, EXPANSION * width)
        self.contract = nn.Linear(EXPANSION * width, width)

    def forward(self, x: Tensor, visible: Tensor | None = None, context: Tensor | None = None) -> Tensor:
        """Return the block's output. x attends to `context` (N, m, width) and x, if `visible` (n, m + n) is True."""
        normed = self.norm1(x)
        q, k, v = self.qkv(normed).chunk(3, dim=-1)
        if context is not None:
            width = q.shape[-1]
            kv = linear(self.norm1(context), self.qkv.weight[width:], self.qkv.bias[width:])
            k, v = (torch.cat(pair, dim=1) for pair in zip(kv.chunk(2, dim=-1), (k, v), strict=True))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))  # (N, H, n, width / H)
        x = x + self.project(attention(q, k, v, visible).transpose(1, 2).flatten(2))
        output: Tensor = x + self.contract(gelu(self.expand(self.norm2(x))))
        return output


def initialise(network: nn.Module) -> None:
    """Initialise linear layers as published: truncated normal weights, zero bias."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=INITIAL_STD)
            nn.init.zeros_(module.bias)
