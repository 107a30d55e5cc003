"""The Body Transformer (Sferrazza et al., CoRL 2024, arXiv 2408.06316): one token per node of the body, attention
masked by the body's graph.

Every node has a linear tokenizer for its own measurements and a linear detokenizer for its joints. Between them are
post-norm encoder layers, as torch.nn.TransformerEncoderLayer without dropout. The paper's network sees one time step,
which does not show the delay of commands. Here a node sees its last `window` observations, stacked, oldest first; a
window of 1 is the published form.
"""

from typing import Any, Literal

import numpy as np

from fcnet_core.arrays import Mask
from fcnet_core.errors import FcnetError
from fcnet_core.files import Seed
from fcnet_core.observation import PolicyInterface
from fcnet_core.policies import (
    Layers,
    Legs,
    PolicyConfig,
    PolicyType,
    Shapes,
    Size,
    block_shapes,
    check_heads,
    weights_and_biases,
)
from fcnet_core.policies.body_transformer.graph import BodyGraph, body_graph
from fcnet_core.robot import Robot


class BodyTransformerConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sizes of a network, and the body's graph, by default that of the interface's joints.

    mask: the layers with the graph's mask: `hard` all of them; `mix` the first, third, ..., the others are dense;
    `mix_unmasked_first` the second, fourth, ...; `dense` none: a Transformer with one token per node. `soft` has no
    mask, but a learned bias per path length, the same in all layers and heads. `random` is `hard` with equally many
    random entries (`mask_seed`). positions: whether a learned vector is added to a node's token. ffn_width: inner
    width of the perceptrons. Raises ValueError if graph, observation, action and heads do not fit each other.
    """

    graph: BodyGraph
    mask: Literal["hard", "mix", "mix_unmasked_first", "soft", "dense", "random"] = "mix"
    mask_seed: Seed = 0
    positions: bool = True
    layers: Layers = 8
    hidden: Size = 64
    heads: Size = 2
    ffn_width: Size = 128
    window: Size = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.heads, self.hidden)
        for node in self.graph.nodes:
            seen = "entry of the observation", node.observation, self.observation
            for what, entries, size in (seen, ("joint", node.action, self.action)):
                if entries and max(entries) >= size:
                    raise ValueError(f"node {node.name} has the unknown {what} {max(entries)}; choose 0 to {size - 1}")
        if missing := set(range(self.action)) - {joint for node in self.graph.nodes for joint in node.action}:
            raise ValueError(f"joint {min(missing)} of the action is in no node of the graph; give it to one")

    def weight_shapes(self) -> Shapes:
        """Return the shape of every weight; linear weights are (outputs, inputs).

        tokenizer.weight has, for every step of the window, oldest first, the columns of all nodes in turn.
        """
        d, nodes = self.hidden, len(self.graph.nodes)
        seen = sum(len(node.observation) for node in self.graph.nodes)
        shapes: Shapes = {
            "tokenizer.weight": (d, self.window * seen),
            "tokenizer.bias": (nodes, d),
            "detokenizer.weight": (self.action, d),
            "detokenizer.bias": (self.action,),
        }
        if self.positions:
            shapes["positions"] = (nodes, d)
        if self.mask == "soft":
            shapes["path_bias"] = (int(self.graph.paths.max()) + 1,)
        for layer in range(self.layers):
            shapes |= weights_and_biases(block_shapes(f"layers.{layer}.", d, self.ffn_width))
        return shapes

    @property
    def attended(self) -> Mask:
        """The mask (n, n) of a masked layer, from attending nodes (rows) to the nodes that they attend to."""
        return self.graph.random_mask(self.mask_seed) if self.mask == "random" else self.graph.mask

    def is_masked(self, layer: int) -> bool:
        """Return whether layer 0, 1, ... is masked."""
        if self.mask.startswith("mix"):
            return layer % 2 == (self.mask == "mix_unmasked_first")
        return self.mask in ("hard", "random")

    def admitted(self, layer: int) -> Mask:
        """Return the mask (n, n) of a layer, from attending nodes (rows) to the nodes that they attend to."""
        return self.attended if self.is_masked(layer) else np.ones_like(self.attended)

    @classmethod
    def defaults(cls, interface: PolicyInterface, legs: Legs) -> dict[str, Any]:
        return {**super().defaults(interface, legs), "graph": body_graph(interface, legs)}

    def check_robot(self, interface: PolicyInterface, robot: Robot) -> None:
        """Raise FcnetError unless the graph is that of the robot's joints."""
        if self.graph != body_graph(interface, robot.legs):
            remedy = "train without `graph` in the configuration, or choose another model"
            raise FcnetError(f"the network's graph {self.graph} does not match {robot.name}; {remedy}")


POLICY = PolicyType(__name__, BodyTransformerConfig, "network:BodyTransformer")
