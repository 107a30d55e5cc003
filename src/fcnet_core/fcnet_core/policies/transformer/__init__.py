"""A causal Transformer, one token a step: GPT-2's blocks over a window of observations, without positions.

Its memory are the keys and values of the last n steps (`window`) in every layer. Order is known from causality alone:
a token's features in a deeper layer depend on what came before it.

Both memory rules are one function of the network, in training as in every runtime:

- reset_every_n: the memory is emptied after every n steps, as the evaluation of the FCNet paper does. Within a window
  every step attends to all steps since, so that a step with kept keys and values equals the window computed at once.
- sliding: a ring of the last n keys and values. A token attends to the last n steps in every layer, and training masks
  attention to the same band of n, so that steps with the ring equal the training form, too. The keys and values that a
  deeper layer keeps were computed from windows that reach further back: an action depends on layers (n - 1) + 1 steps.
  It is therefore not what recomputing the network from its last n observations alone would give, as the published
  Decision Transformer does, except in the first n steps and with a single layer.
"""

from __future__ import annotations

from fcnet_core.policies import Layers, PolicyConfig, PolicyType, Size

EXPANSION = 4  # inner width of a block's perceptron over `hidden`, as in GPT-2


class TransformerConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network: the defaults are the FCNet paper's Transformer for legged robots (804,236 parameters).

    Every head attends with hidden / heads channels. Raises ValueError when that is not a whole number.
    """

    observation: Size = 70
    action: Size = 12
    hidden: Size = 128
    layers: Layers = 4
    heads: Size = 8
    window: Size = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden % self.heads:
            raise ValueError(
                f"hidden ({self.hidden}) cannot be divided among {self.heads} heads; choose heads so that it can"
            )

    @property
    def memory_steps(self) -> int:
        """Every layer's ring reaches back."""
        return self.layers * (self.window - 1)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every weight; linear weights are (outputs, inputs).

        The outputs of qkv are queries, keys and values, each of `hidden` channels, a head's next to each other.
        """
        d = self.hidden
        linear = {"embed": (d, self.observation), "head": (self.action, d)}
        norms = ["embed_norm", "stack.norm"]
        for layer in range(self.layers):
            prefix = f"stack.layers.{layer}."
            norms += [prefix + "norm1", prefix + "norm2"]
            linear |= {prefix + "qkv": (3 * d, d), prefix + "project": (d, d)}
            linear |= {prefix + "expand": (EXPANSION * d, d), prefix + "contract": (d, EXPANSION * d)}
        shapes: dict[str, tuple[int, ...]] = {}
        for name, shape in linear.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        for name in norms:
            shapes |= {f"{name}.weight": (d,), f"{name}.bias": (d,)}
        return shapes


POLICY = PolicyType(
    package=__name__,
    config=TransformerConfig,
    network="network:CausalTransformer",
    step="step:Step",
    sequence="step:Sequence",
    numba="numba_step:numba_step",
    onnx="step:add_to_graph",
)
