"""One step of the Transformer in eager PyTorch: what its compiled runtimes are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import scaled_dot_product_attention

from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.transformer.network import CausalTransformer

Array = npt.NDArray[np.float32]


class EagerTransformer:
    """The modules of the network, token by token, with keys and values in rings that are allocated once, float32."""

    def __init__(self, model: PolicyModel) -> None:
        config = model.card.config
        self.network = CausalTransformer(config)
        self.network.load_state_dict({name: torch.from_numpy(weight) for name, weight in model.weights.items()})
        self.blocks: Any = self.network.stack.layers
        names = ("observation_mean", "observation_std", "action_mean", "action_scale")
        self.mean, self.std, self.action_mean, self.action_scale = (torch.from_numpy(model.scales[n]) for n in names)
        self.clip, self.heads, self.window = model.card.observation_clip, config.heads, config.window
        ring = (config.layers, config.heads, config.window, config.hidden // config.heads)
        self.keys, self.values = torch.zeros(ring), torch.zeros(ring)
        self.count = 0

    def reset(self) -> None:
        """Forget every past observation."""
        self.count = 0

    @torch.inference_mode()
    def step(self, observation: Array) -> Array:
        """Joint targets (action,) [rad] for an observation (observation,)."""
        x = ((torch.from_numpy(observation) - self.mean) / self.std).clamp(-self.clip, self.clip)
        x = self.network.embed_norm(self.network.embed(x))
        slot, filled = self.count % self.window, min(self.count + 1, self.window)
        for layer, block in enumerate(self.blocks):
            q, k, v = block.qkv(block.norm1(x)).view(3, self.heads, 1, -1)
            self.keys[layer, :, slot : slot + 1], self.values[layer, :, slot : slot + 1] = k, v
            mixed = scaled_dot_product_attention(q, self.keys[layer, :, :filled], self.values[layer, :, :filled])
            x = x + block.project(mixed.flatten())
            x = x + block.contract(block.activation(block.expand(block.norm2(x))))
        self.count += 1
        output = self.network.head(self.network.stack.norm(x))
        return (self.action_mean + self.action_scale * output).numpy()
