"""A causal Transformer, one token per step: GPT-2's blocks over a window of observations, without positions.

The memory is the keys and values of the last n steps (`window`) in every layer. Only causality gives the order: a
token's features in a deeper layer depend on the tokens before it.

In both window policies, training and all runtimes compute the same function:

- reset_every_n: the memory is cleared after every n steps, as in the evaluation of the FCNet paper. A step attends to
  all steps since, so stepping with kept keys and values equals computing the window at once.
- sliding: a ring of the last n keys and values. A token attends to the last n steps in every layer, and training masks
  attention to the same band of n. The keys and values that a deeper layer keeps were computed from windows that reach
  further back, so an action depends on layers (n - 1) + 1 steps. Recomputing the network from only its last n
  observations, as the published Decision Transformer does, gives another result, except in the first n steps and with
  one layer.
"""

from fcnet_core.policies import (
    Layers,
    PolicyConfig,
    PolicyType,
    Shapes,
    Size,
    block_shapes,
    check_heads,
    weights_and_biases,
)

EXPANSION = 4  # inner width of a block's perceptron over `hidden`, as in GPT-2


class TransformerConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network: the defaults are the FCNet paper's Transformer for legged robots (804,236 parameters).

    Every head attends with hidden / heads channels. Raises ValueError if that is not a whole number.
    """

    hidden: Size = 128
    layers: Layers = 4
    heads: Size = 8
    window: Size = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.heads, self.hidden)

    @property
    def memory_steps(self) -> int:
        """The rings of all layers, without the present step."""
        return self.layers * (self.window - 1)

    def weight_shapes(self) -> Shapes:
        """Return the shape of every weight."""
        d = self.hidden
        shapes: Shapes = {"embed": (d, self.observation), "embed_norm": (d,)}
        for layer in range(self.layers):
            shapes |= block_shapes(f"stack.layers.{layer}.", d, EXPANSION * d)
        return weights_and_biases(shapes | {"stack.norm": (d,), "head": (self.action, d)})


POLICY = PolicyType(__name__, TransformerConfig, "network:CausalTransformer", "numba_step:numba_step")
