"""The retentive network (RetNet): attention whose weights decay with time, run as a recurrence of constant cost."""

import math
from typing import Annotated

from msgspec import Meta

from fcnet_core.policies import Layers, PolicyConfig, PolicyType, Shapes, Size, weights_and_biases

Heads = Annotated[int, Meta(ge=1, le=8)]  # the slowest of 8 sums some 4,096 steps: in float32 to 3e-6


class RetNetConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network: Linear, `layers` of retention and gated feed-forward, Linear.

    hidden: width d of the layers, queries and keys; value_width: width of the values, 2 d as published; both are shared
    among the heads; ffn_width: inner width of the feed-forward. The defaults have 781,836 parameters, as many as the
    legged Fourier Controller Network within 1 %.

    Head h = 0, 1, ... keeps 1 - 2^-(5 + h) of its memory per step: of 4 heads, half is gone after 22, 44, 88 and 177
    steps. The window policy `sliding` keeps this decaying memory; `reset_every_n` clears it every `window` steps,
    as the published evaluation does. The window has no other effect.
    Raises ValueError if the widths cannot be divided among the heads.
    """

    layers: Layers = 4
    hidden: Size = 128
    value_width: Size = 256
    heads: Heads = 4
    ffn_width: Size = 160
    window: Size = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = 2 * self.heads  # keys are rotated in pairs of entries
        for name, width, multiple in (("hidden", self.hidden, pairs), ("value_width", self.value_width, self.heads)):
            if width % multiple:
                raise ValueError(f"{name} is {width}, with heads {self.heads} it must be a multiple of {multiple}")

    @property
    def memory_steps(self) -> float:
        """Infinite: the memory only decays."""
        return math.inf

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """Shape of a layer's memory: heads, key width and value width of a head."""
        return self.heads, self.hidden // self.heads, self.value_width // self.heads

    def weight_shapes(self) -> Shapes:
        """Return the shape of every weight by its published name; `final_layer_norm` precedes the feed-forward."""
        d, values, inner = self.hidden, self.value_width, self.ffn_width
        shapes = weights_and_biases({"embed_state": (d, self.observation)})
        for layer in range(self.layers):
            prefix = f"decoder.layers.{layer}."
            for name, rows in (("q", d), ("k", d), ("v", values), ("g", values)):
                shapes[f"{prefix}retention.{name}_proj.weight"] = (rows, d)
            shapes[f"{prefix}retention.out_proj.weight"] = (d, values)
            shapes |= {f"{prefix}ffn.{name}.weight": (inner, d) for name in ("fc1", "gate")}
            shapes[f"{prefix}ffn.fc2.weight"] = (d, inner)
            shapes |= {f"{prefix}{name}.weight": (d,) for name in ("retention_layer_norm", "final_layer_norm")}
        return shapes | {"decoder.layer_norm.weight": (d,)} | weights_and_biases({"predict_tgt": (self.action, d)})


POLICY = PolicyType(__name__, RetNetConfig, "network:RetNet")
