"""The retentive network in PyTorch: in parallel, in chunks if sequences are long, or as a recurrence.

Retention of a head with queries q_t, keys k_t, values v_t and decay gamma: the state S_t = gamma S_{t-1} + k_t^T v_t,
the output o_t = q_t S_t. Queries and keys are rotated by the angle of their step, and queries scaled by
1 / sqrt(d_k n_t) with n_t = gamma n_{t-1} + 1. With one scale, the three forms are equal except for rounding.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, rms_norm, silu

from fcnet_core.policies.network import PolicyNetwork, State
from fcnet_core.policies.retnet import RetNetConfig

CHUNK = 128  # steps that are computed in parallel
EPSILON = 1e-6  # of the RMS norms, as published


class Tables:
    """Constants of retention for T steps of B robots, or of any robot (B = 1), in chunks of b steps.

    cosine, sine (B, 1, T, d_k / 2): of the rotations; scale (B, H, T, 1): of the queries; decay (H, 1, 1): gamma;
    within (H, b, b): gamma^(r - s), the weight of step s at step r; before (H, b, 1): gamma^(r + 1), the weight of the
    state before the chunk; after (H, b, 1): gamma^(b - 1 - s), the weight of step s in the state after the chunk.
    Computed in float64.
    """

    def __init__(self, start: Tensor, steps: int, chunk: int, heads: int, key_width: int, like: Tensor) -> None:
        gamma = decays(heads).to(like.device)
        time = start[:, None].double() + torch.arange(steps, device=like.device)  # (B, T)
        turned = (time[..., None] * angles(key_width).to(like.device))[:, None]
        count = (1 - gamma[:, None] ** (time[:, None] + 1)) / (1 - gamma[:, None])  # (B, H, T)
        self.cosine, self.sine = turned.cos().to(like), turned.sin().to(like)
        self.scale = (key_width * count).rsqrt()[..., None].to(like)
        self.chunk, size = chunk, min(chunk, steps)
        powers = gamma[:, None] ** torch.arange(size + 1, device=like.device)  # (H, b + 1)
        step = torch.arange(size, device=like.device)
        self.decay = gamma[:, None, None].to(like)
        self.within = powers[:, (step[:, None] - step).abs()].tril().to(like)
        self.before, self.after = (part[..., None].to(like) for part in (powers[:, 1:], powers[:, :-1].flip(1)))


def decays(heads: int) -> Tensor:
    """Return gamma of each head (H,), exact also in float32."""
    return 1 - torch.exp2(-5.0 - torch.arange(heads, dtype=torch.float64))


def angles(key_width: int) -> Tensor:
    """Return the rotation of each pair of key entries per step (d_k / 2,) [rad], from 1 to 1 / 10,000."""
    return torch.logspace(0, -4, key_width // 2, dtype=torch.float64)


class RetNet(PolicyNetwork):
    """Linear, the layers and a norm, Linear. Parameters carry the published names and initialisation.

    Memory: steps (B,) since the reset, and the state of each layer (B, H, d_k, d_v).
    """

    def __init__(self, config: RetNetConfig, chunk: int = CHUNK) -> None:
        super().__init__()
        self._config, self._chunk = config, chunk
        self.embed_state = nn.Linear(config.observation, config.hidden)
        layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        norm = nn.RMSNorm(config.hidden, eps=EPSILON)
        self.decoder = nn.ModuleDict({"layers": layers, "layer_norm": norm})
        self.predict_tgt = nn.Linear(config.hidden, config.action)

    def cold(self, batch: int) -> State:
        steps = torch.zeros(batch, dtype=torch.int64, device=self.embed_state.weight.device)
        layers = range(self._config.layers)
        return {"steps": steps} | {f"state_{i}": self.zeros(batch, *self._config.state_shape) for i in layers}

    def forward(self, observation: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        # The residual stream has the precision of the weights, even if products have a lower one.
        x = self.embed_state(observation).to(self.embed_state.weight.dtype)  # (B, T, d)
        heads, key_width, _ = self._config.state_shape
        start = torch.zeros(1, dtype=torch.int64, device=x.device) if state is None else state["steps"]
        tables = Tables(start, x.shape[1], self._chunk, heads, key_width, x)
        written = {"steps": (start + x.shape[1]).expand(x.shape[0])}
        layers: Any = self.decoder["layers"]
        for index, layer in enumerate(layers):
            name = f"state_{index}"
            x, written[name] = layer(x, tables, None if state is None else state[name])
        return self.predict_tgt(self.decoder["layer_norm"](x)), written

    def step(self, observation: Tensor, state: State) -> tuple[Tensor, State]:
        output, written = self(observation[:, None], state)
        return output[:, 0], written


class DecoderLayer(nn.Module):
    """x += Retention(RMSNorm(x)), then x += GatedFeedForward(RMSNorm(x)), on (B, T, d)."""

    def __init__(self, config: RetNetConfig) -> None:
        super().__init__()
        self.retention_layer_norm = nn.RMSNorm(config.hidden, eps=EPSILON)
        self.retention = Retention(config)
        self.final_layer_norm = nn.RMSNorm(config.hidden, eps=EPSILON)
        self.ffn = GatedFeedForward(config.hidden, config.ffn_width)

    def forward(self, x: Tensor, tables: Tables, state: Tensor | None) -> tuple[Tensor, Tensor]:
        mixed, state = self.retention(self.retention_layer_norm(x), tables, state)
        x = x + mixed
        return x + self.ffn(self.final_layer_norm(x)), state


class Retention(nn.Module):
    """Multi-scale retention of the heads, normalised for each head, gated by SiLU and mixed by a linear layer."""

    def __init__(self, config: RetNetConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.q_proj = _linear(config.hidden, config.hidden, gain=2**-2.5)
        self.k_proj = _linear(config.hidden, config.hidden, gain=2**-2.5)
        self.v_proj = _linear(config.hidden, config.value_width, gain=2**-2.5)
        self.g_proj = _linear(config.hidden, config.value_width, gain=2**-2.5)
        self.out_proj = _linear(config.value_width, config.hidden, gain=0.5)

    def forward(self, x: Tensor, tables: Tables, state: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k, v = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, T, d_k or d_v)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = (rotate(x, tables.cosine, tables.sine) for x in (q, k))
        retained, state = retain(q * tables.scale, k, v, tables, state)
        normed = rms_norm(retained, retained.shape[-1:], eps=EPSILON).transpose(1, 2).flatten(2)
        return self.out_proj(silu(self.g_proj(x)) * normed), state


class GatedFeedForward(nn.Module):
    """W2 (GELU(W1 x) * (Wg x)), without biases."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(hidden, width, bias=False)
        self.fc2 = nn.Linear(width, hidden, bias=False)
        self.gate = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.fc2(gelu(self.fc1(x)) * self.gate(x))
        return output


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate pairs of neighbouring entries of x (B, H, T, d_k) by the angles of their steps (B, 1, T, d_k / 2).

    In the result, first entries come before second ones; products of queries and keys do not depend on this order.
    """
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def retain(q: Tensor, k: Tensor, v: Tensor, tables: Tables, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return retained values (B, H, T, d_v) and the state (B, H, d_k, d_v) after them, for rotated, scaled q and
    rotated k (B, H, T, d_k), v (B, H, T, d_v) and the state before them.
    """
    if q.shape[2] == 1 and state is not None:  # the recurrent form
        state = state * tables.decay + k.transpose(2, 3) * v
        return q @ state, state
    retained = []
    for queries, keys, values in zip(*(x.split(tables.chunk, dim=2) for x in (q, k, v)), strict=True):
        size = queries.shape[2]
        output = (queries @ keys.transpose(2, 3) * tables.within[:, :size, :size]) @ values
        if state is not None:
            output = output + (queries * tables.before[:, :size]) @ state
        added = (keys * tables.after[:, -size:]).transpose(2, 3) @ values
        state = added if state is None else state * tables.before[:, size - 1 : size] + added
        retained.append(output)
    assert state is not None
    return torch.cat(retained, dim=2), state


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.xavier_uniform_(layer.weight, gain=gain)
    return layer
