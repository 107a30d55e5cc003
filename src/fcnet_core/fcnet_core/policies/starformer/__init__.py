"""The StARformer (Shang et al., ECCV 2022 and TPAMI), vector form: two Transformers, one within a step, one over steps.

A step's tokens are the last action, the observed state and, if there is one, the last reward. The step transformer
attends among them, without a mask; after each of its layers the tokens are pooled to one vector g. The sequence
transformer attends causally over the steps of a window, to g of its own layer and to h, which starts as a linear map
of the observation, the pure state; the action comes from h. Learned time vectors are added to g and to the first h.

In the published form, `tokens: scalars`, every number of an observation is a token. The default, `groups`, has one
token, with a linear layer of its own, for each group of entries: the nodes of the robot's body. The last action is part
of the observation; it has its own token and is in none of the default groups. The reward of the last action is an entry
of the observation. Unlike the published form, actions do not pass a tanh, because actions of the suite's robots exceed
1, and there is no dropout.

The pooled vectors of a step do not depend on time: they are computed once and kept for the steps of the window. Time
vectors count from the start of the window, so the sequence transformer runs over the whole window in every step.
"""

from collections import Counter
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from fcnet_core.errors import FcnetError
from fcnet_core.observation import PolicyInterface
from fcnet_core.observation.terms import LastAction
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
from fcnet_core.policies.body_transformer.graph import Entries, body_graph
from fcnet_core.robot import Robot

Connection = Literal["layer_wise", "fusion", "pooled_only", "stack"]
EXPANSION = 4  # inner width of a block's perceptron over that of its tokens
LONGEST_WINDOW = 1024  # [steps]; memory and time of a step grow with its square


class Group(Struct, frozen=True, forbid_unknown_fields=True):
    """Entries of the observation that share one token."""

    name: str
    observation: Annotated[Entries, Meta(min_length=1)]


def last_action_entries(interface: PolicyInterface) -> tuple[int, ...]:
    """Return the entries of the last action. Raises FcnetError if there are none."""
    terms = interface.placed_terms
    found = tuple(entry for term, entries in terms if isinstance(term, LastAction) for entry in entries)
    if not found:
        raise FcnetError("a StARformer has a token of the last action; give the interface a term last_action")
    return found


def body_groups(interface: PolicyInterface, legs: Legs) -> tuple[Group, ...]:
    """Return the nodes of the body with their entries of the observation, without the last action."""
    last = {*last_action_entries(interface)}
    nodes = body_graph(interface, legs).nodes
    groups = [(node.name, tuple(entry for entry in node.observation if entry not in last)) for node in nodes]
    return tuple(Group(name, entries) for name, entries in groups if entries)


class StarformerConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sizes of a network: those of the authors' vector form, with groups of entries as tokens.

    groups: an entry is in at most one group; last_action, reward: entries of the observation.
    connection: `layer_wise` attends to g and h; `fusion` adds g, without time, to h; `pooled_only` adds g to an h that
    starts at zero; `stack` pools only after the last step layer, and h starts with the result. hidden, heads: of the
    sequence transformer; token_width, token_heads: of the step transformer. time_table: number of steps with a time
    vector, at least the window's. Raises ValueError if sizes and entries do not fit each other.
    """

    groups: Annotated[tuple[Group, ...], Meta(min_length=1, max_length=256)]
    tokens: Literal["groups", "scalars"] = "groups"
    last_action: Annotated[Entries, Meta(min_length=1)]
    reward: Annotated[int, Meta(ge=0)] | None = None
    connection: Connection = "layer_wise"
    layers: Layers = 3
    hidden: Size = 128
    heads: Size = 1
    token_width: Size = 16
    token_heads: Size = 4
    window: Size = 10
    time_table: Size = 30

    def __post_init__(self) -> None:
        if self.window > LONGEST_WINDOW:
            raise ValueError(f"the window has {self.window} steps, the limit is {LONGEST_WINDOW}; choose a shorter one")
        check_heads(self.heads, self.hidden)
        check_heads(self.token_heads, self.token_width, "token_width")
        if self.window > self.time_table:
            longer = f"the window ({self.window}) is longer than the time table ({self.time_table} steps)"
            raise ValueError(f"{longer}; choose a window of at most {self.time_table} or a longer time_table")
        reward = () if self.reward is None else (self.reward,)
        named = [(f"group {group.name}", group.observation) for group in self.groups]
        for name, entries in (*named, ("last_action", self.last_action), ("reward", reward)):
            if entries and max(entries) >= self.observation:
                entry, last = max(entries), self.observation - 1
                raise ValueError(f"{name} has the unknown entry {entry} of the observation; choose 0 to {last}")
        for name, entries in (("groups", self.state_entries.tolist()), ("last_action", self.last_action)):
            entry, count = Counter(entries).most_common(1)[0]
            if count > 1:
                raise ValueError(f"{name} has entry {entry} of the observation {count} times; name it once")
        super().__post_init__()

    @property
    def state_entries(self) -> npt.NDArray[np.intp]:
        """The entries of the observation in groups, group after group."""
        return np.array([entry for group in self.groups for entry in group.observation], dtype=np.intp)

    @property
    def state_tokens(self) -> npt.NDArray[np.intp]:
        """The token of the state, 0, 1, ..., of each of the state entries."""
        sizes = [len(group.observation) for group in self.groups]
        return np.arange(sum(sizes)) if self.tokens == "scalars" else np.repeat(np.arange(len(sizes)), sizes)

    @property
    def step_tokens(self) -> int:
        """Number of tokens of a step: last action, state and, if there is one, reward."""
        return 1 + int(self.state_tokens[-1]) + 1 + (self.reward is not None)

    def weight_shapes(self) -> Shapes:
        """Return the shape of every weight; linear weights are (outputs, inputs).

        tokenizer.weight has the columns of all groups in turn, or one column that all scalars share.
        """
        d, hidden, entries = self.token_width, self.hidden, len(self.state_entries)
        layers: Shapes = {"tokenizer.action": (d, len(self.last_action)), "head": (self.action, hidden)}
        if self.reward is not None:
            layers["tokenizer.reward"] = (d, 1)
        if has_pure_state(self.connection):
            layers["state"] = (hidden, entries)
        layers["encoder.norm"] = (hidden,)
        for layer in range(self.layers):
            layers |= block_shapes(f"encoder.step_layers.{layer}.", d, EXPANSION * d)
            layers |= block_shapes(f"encoder.sequence_layers.{layer}.", hidden, EXPANSION * hidden)
        for pooling in range(poolings(self.connection, self.layers)):
            prefix = f"encoder.pooling.{pooling}."
            layers |= {prefix + "project": (hidden, self.step_tokens * d), prefix + "norm": (hidden,)}
            if self.connection != "stack":
                layers[prefix + "token_norm"] = (d,)
        shapes: Shapes = {"encoder.time": (self.time_table, hidden)}
        if self.tokens == "groups":
            shapes |= {"tokenizer.weight": (d, entries), "tokenizer.bias": (len(self.groups), d)}
        else:
            shapes |= {"tokenizer.weight": (d, 1), "tokenizer.bias": (d,), "tokenizer.positions": (entries, d)}
        return shapes | weights_and_biases(layers)

    @classmethod
    def defaults(cls, interface: PolicyInterface, legs: Legs) -> dict[str, Any]:
        sizes = super().defaults(interface, legs)
        return sizes | {"groups": body_groups(interface, legs), "last_action": last_action_entries(interface)}

    def check_robot(self, interface: PolicyInterface, robot: Robot) -> None:
        """Raise FcnetError if the groups or the last action do not fit the robot's observation."""
        grouped = self.tokens == "scalars" or self.groups == body_groups(interface, robot.legs)
        if not grouped or self.last_action != last_action_entries(interface):
            remedy = "train without `groups` and `last_action` in the configuration, or choose another model"
            raise FcnetError(f"the network's groups or last action do not fit {robot.name}'s observation; {remedy}")


def has_pure_state(connection: Connection) -> bool:
    """Return whether h starts as the pure state."""
    return connection in ("layer_wise", "fusion")


def poolings(connection: Connection, layers: int) -> int:
    """Return how often the tokens of a step are pooled."""
    return 1 if connection == "stack" else layers


POLICY = PolicyType(__name__, StarformerConfig, "network:Starformer")
