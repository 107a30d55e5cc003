"""The retentive network in PyTorch, on whole sequences: in parallel, or in chunks where they are long."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, rms_norm, silu

from fcnet_core.policies.retnet import RetNetConfig
from fcnet_core.policies.retnet.retention import EPSILON, ChunkDecays, angles, decays, query_scale

CHUNK = 128  # steps that are computed in parallel


class Tables(NamedTuple):
    """Constants of retention for T steps and chunks of b steps, see retention.py."""

    cosine: Tensor  # (T, d_k / 2)
    sine: Tensor  # (T, d_k / 2)
    scale: Tensor  # (H, T, 1)
    within: Tensor  # (H, b, b)
    before: Tensor  # (H, b, 1)
    after: Tensor  # (H, b, 1)


class RetNet(nn.Module):
    """Maps normalised observations (B, T, observation) to normalised actions (B, T, action), causally, any T >= 1.

    The first step of a sequence has an empty memory. Parameters carry the published names and initialisation.
    """

    def __init__(self, config: RetNetConfig, chunk: int = CHUNK) -> None:
        super().__init__()
        heads, key_width, _ = config.state_shape
        self._decay, self._angle, self._key_width = decays(heads), angles(key_width), key_width
        self._chunk = ChunkDecays.of(self._decay, chunk)  # constants in float64; they follow the type of the weights
        self.embed_state = nn.Linear(config.observation, config.hidden)
        self.decoder = Decoder(config)
        self.predict_tgt = nn.Linear(config.hidden, config.action)

    def forward(self, observation: Tensor) -> Tensor:
        # The residual stream has the precision of the weights, even if products have a lower one.
        x = self.embed_state(observation).to(self.embed_state.weight.dtype)  # (B, T, d)
        output: Tensor = self.predict_tgt(self.decoder(x, self._tables(x)))
        return output

    def _tables(self, x: Tensor) -> Tables:
        steps = np.arange(x.shape[1], dtype=np.float64)
        turned = np.outer(steps, self._angle)
        scale = query_scale(steps, self._decay, self._key_width).T[..., None]
        tables = np.cos(turned), np.sin(turned), scale, *self._chunk
        return Tables(*(torch.from_numpy(table).to(x) for table in tables))


class Decoder(nn.Module):
    """The layers and a norm, on (B, T, d)."""

    def __init__(self, config: RetNetConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.layer_norm = nn.RMSNorm(config.hidden, eps=EPSILON)

    def forward(self, x: Tensor, tables: Tables) -> Tensor:
        for layer in self.layers:
            x = layer(x, tables)
        return self.layer_norm(x)


class DecoderLayer(nn.Module):
    """x += Retention(RMSNorm(x)), then x += GatedFeedForward(RMSNorm(x)), on (B, T, d)."""

    def __init__(self, config: RetNetConfig) -> None:
        super().__init__()
        self.retention_layer_norm = nn.RMSNorm(config.hidden, eps=EPSILON)
        self.retention = Retention(config)
        self.final_layer_norm = nn.RMSNorm(config.hidden, eps=EPSILON)
        self.ffn = GatedFeedForward(config.hidden, config.ffn_width)

    def forward(self, x: Tensor, tables: Tables) -> Tensor:
        x = x + self.retention(self.retention_layer_norm(x), tables)
        return x + self.ffn(self.final_layer_norm(x))


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

    def forward(self, x: Tensor, tables: Tables) -> Tensor:
        q, k, v = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, T, d_k or d_v)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = (rotate(x, tables.cosine, tables.sine) for x in (q, k))
        retained = retain(q * tables.scale, k, v, tables)
        normed = rms_norm(retained, retained.shape[-1:], eps=EPSILON).transpose(1, 2).flatten(2)
        output: Tensor = self.out_proj(silu(self.g_proj(x)) * normed)
        return output


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
    """Rotate pairs of neighbouring entries of x (B, H, T, d_k) by the angles of their steps (T, d_k / 2).

    In the result, first entries come before second ones; products of queries and keys do not depend on this order.
    """
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def retain(q: Tensor, k: Tensor, v: Tensor, tables: Tables) -> Tensor:
    """Return retained values (B, H, T, d_v) for rotated, scaled q and rotated k (B, H, T, d_k) and v (B, H, T, d_v)."""
    chunk, steps = tables.within.shape[-1], q.shape[2]
    retained, state = [], None  # the latter (B, H, d_k, d_v)
    for start in range(0, steps, chunk):
        end = min(start + chunk, steps)
        size = end - start
        queries, keys, values = (x[:, :, start:end] for x in (q, k, v))
        output = (queries @ keys.transpose(2, 3) * tables.within[:, :size, :size]) @ values
        if state is not None:
            output = output + (queries * tables.before[:, :size]) @ state
        if end < steps:
            added = (keys * tables.after).transpose(2, 3) @ values
            state = added if state is None else state * tables.before[:, -1:] + added
        retained.append(output)
    return torch.cat(retained, dim=2)


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.xavier_uniform_(layer.weight, gain=gain)
    return layer
