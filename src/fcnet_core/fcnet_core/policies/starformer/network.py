"""The StARformer in PyTorch, with the encoder that its image form shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from fcnet_core.policies.attention import Block, attention
from fcnet_core.policies.network import PolicyNetwork, State, ring_of
from fcnet_core.policies.starformer import EXPANSION, StarformerConfig, has_pure_state, poolings

if TYPE_CHECKING:
    from fcnet_core.policies.starformer.image import ImageSizes

INITIAL_STD = 0.02  # of linear weights


class Starformer(PolicyNetwork):
    """A step sees the last `window` steps, recomputed with the time vectors of their places in that window. To train on
    sequences longer than the window therefore takes `window` times the work of the sequence transformer.

    Memory: steps (B,) since the reset, and a ring (window - 1, B, (K + 1) D) of the K pooled vectors and the pure
    state, if there is one, of the last steps.
    """

    _entries: Tensor

    def __init__(self, config: StarformerConfig) -> None:
        super().__init__()
        self._window, self._hidden = config.window, config.hidden
        self.register_buffer("_entries", torch.from_numpy(config.state_entries), persistent=False)
        self.tokenizer = Tokenizer(config)
        pure = has_pure_state(config.connection)
        self.state = nn.Linear(len(config.state_entries), config.hidden) if pure else None
        self.encoder = Encoder(config, config.step_tokens)
        self.head = nn.Linear(config.hidden, config.action)
        initialise(self)

    def cold(self, batch: int) -> State:
        steps = torch.zeros(batch, dtype=torch.int64, device=self.head.weight.device)
        if self._window == 1:
            return {"steps": steps}
        width = (len(self.encoder.pooling) + (self.state is not None)) * self._hidden
        return {"steps": steps, "kept": self.zeros(self._window - 1, batch, width)}

    def forward(self, observation: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        n, (robots, steps) = self._window, observation.shape[:2]
        kept = self._pooled(observation.flatten(0, 1)).unflatten(0, (robots, steps))  # (B, T, (K + 1) D)
        parts, filled, alone = [], None, steps  # number of steps that have a window of their own
        started = torch.zeros(robots, dtype=torch.int64, device=kept.device) if state is None else state["steps"]
        if state is None:  # the first n steps share a window
            parts.append(self._encoded(kept[:, :n]))
            alone = max(steps - n, 0)
        else:
            filled = (started[:, None] + torch.arange(steps, device=kept.device)).clamp(max=n - 1).flatten()
            if n > 1:
                kept = torch.cat([state["kept"].transpose(0, 1).to(kept), kept], dim=1)
        if alone:
            windows = kept.unfold(1, n, 1)[:, -alone:].transpose(2, 3)  # (B, alone, n, (K + 1) D)
            newest = self._encoded(windows.flatten(0, 1), filled, newest=True)
            parts.append(newest.view(robots, alone, -1))
        written = {"steps": started + steps} | ({"kept": ring_of(kept, n - 1)} if n > 1 else {})
        return self.head(torch.cat(parts, dim=1)), written

    def step(self, observation: Tensor, state: State) -> tuple[Tensor, State]:
        kept, filled = self._pooled(observation), state["steps"].clamp(max=self._window - 1)
        written = {"steps": state["steps"] + 1} | ({"kept": kept} if "kept" in state else {})
        window = torch.cat([state["kept"], kept[None]]) if "kept" in state else kept[None]
        return self.head(self._encoded(window.transpose(0, 1), filled, newest=True)[:, 0]), written

    def _pooled(self, observation: Tensor) -> Tensor:
        """Return what is kept of each step (N, (K + 1) D)."""
        kept = self.encoder.pool(self.tokenizer(observation)[:, None])
        if self.state is not None:
            kept.append(self.state(observation[:, self._entries])[:, None])
        return torch.cat(kept, dim=-1)[:, 0]

    def _encoded(self, window: Tensor, filled: Tensor | None = None, newest: bool = False) -> Tensor:
        """Return features (N, n, D), or (N, 1, D) of the newest steps, of windows (N, n, (K + 1) D)."""
        steps = list(window.split(self._hidden, dim=-1))
        state = steps.pop() if self.state is not None else None
        features: Tensor = self.encoder(steps, state, filled, newest)
        return features


class Tokenizer(nn.Module):
    """Observations (..., observation) to tokens (..., P, d): last action, groups or scalars, reward."""

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

    def __init__(self, sizes: StarformerConfig | ImageSizes, tokens: int) -> None:
        super().__init__()
        self._connection, d, hidden = sizes.connection, sizes.token_width, sizes.hidden
        self.step_layers = nn.ModuleList(ContextBlock(d, sizes.token_heads, EXPANSION * d) for _ in range(sizes.layers))
        self.pooling = nn.ModuleList(
            Pooling(tokens, d, hidden, sizes.connection != "stack")
            for _ in range(poolings(sizes.connection, sizes.layers))
        )
        self.time = nn.Parameter(torch.zeros(sizes.time_table, hidden))
        self.sequence_layers = nn.ModuleList(
            ContextBlock(hidden, sizes.heads, EXPANSION * hidden) for _ in range(sizes.layers)
        )
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

    def forward(
        self, pooled: list[Tensor], state: Tensor | None, filled: Tensor | None = None, newest: bool = False
    ) -> Tensor:
        """Return features (B, n, D) of a window's n steps, from g of every pooling and the pure state, (B, n, D) each.

        The sequence transformer uses g only for keys and values. filled (B,): number of steps before the newest one;
        older ones do not exist; None: all exist. newest: return the features (B, 1, D) of the newest step only.
        """
        steps = pooled[0].shape[1]
        if steps > self.time.shape[0]:
            raise ValueError(
                f"the sequence has {steps} steps, the network's time table {self.time.shape[0]}; give at most as many, "
                "or train with a longer time_table"
            )
        visible = torch.ones(steps, steps, dtype=torch.bool, device=self.time.device).tril()
        time = self.time[:steps]
        if filled is not None:  # time counts from the oldest step that exists
            places = torch.arange(1 - steps, 1, device=time.device) + filled[:, None]  # (B, n)
            itself = torch.eye(steps, dtype=torch.bool, device=time.device)  # a softmax needs an entry
            visible = (visible & ((places >= 0)[:, None] | itself))[:, None]
            time = self.time[places.clamp(min=0)]
        h = torch.zeros_like(pooled[0]) if state is None else state + time
        for layer, block in enumerate(self.sequence_layers):
            if layer < len(pooled):
                g = pooled[layer] if self._connection == "fusion" else pooled[layer] + time
            last = newest and layer == len(self.sequence_layers) - 1
            if self._connection == "layer_wise":
                h = block(h, torch.cat([visible, visible], dim=-1), g, last)
            else:
                h = block(h + g if layer < len(pooled) else h, visible, last=last)
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


class ContextBlock(Block):
    """x += Attention(LN(x)), then x += Perceptron(LN(x)), on (N, n, width)."""

    def forward(
        self, x: Tensor, visible: Tensor | None = None, context: Tensor | None = None, last: bool = False
    ) -> Tensor:
        """Return the block's output (N, n, width), or that of the last token, (N, 1, width).

        x attends to `context` (N, m, width) and x, if `visible` (..., n, m + n) is True.
        """
        normed = self.norm1(x)
        q, k, v = self.qkv(normed).chunk(3, dim=-1)
        if context is not None:
            width = q.shape[-1]
            kv = linear(self.norm1(context), self.qkv.weight[width:], self.qkv.bias[width:])
            k, v = (torch.cat(pair, dim=1) for pair in zip(kv.chunk(2, dim=-1), (k, v), strict=True))
        if last:
            x, q, visible = x[:, -1:], q[:, -1:], None if visible is None else visible[..., -1:, :]
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
