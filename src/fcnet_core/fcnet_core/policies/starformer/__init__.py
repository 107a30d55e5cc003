"""The StARformer (Shang et al., ECCV 2022 and TPAMI), vector form: two Transformers, one within a step, one over steps.

A step's tokens are the last action, what was observed, and the last reward where there is one. The step transformer
attends among them, without a mask; after each of its layers the tokens are pooled to one vector g. The sequence
transformer attends over the steps of a window, causally, to g of its own layer and to h, which begins as a linear map
of the observation, the pure state; the action comes from h. Learned time vectors are added to g and to the first h.

Published, every number of an observation is a token, `tokens: scalars`. The default, `groups`, has a token for each
group of entries, with a linear layer of its own: the nodes of the robot's body. The last action is a part of the
observation; it has its own token and is in none of the default groups. The reward is an entry of the observation, too:
what the last action gave, since that of the present one is not known yet. Other than published, actions pass no tanh,
since those of the suite's robots exceed 1, and there is no dropout.

What is pooled of a step does not depend on time: it is computed once and kept for the steps of the window. Time vectors
count from the beginning of the window, so that the sequence transformer runs over the whole window in every step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct, field

from fcnet_core.errors import FcnetError
from fcnet_core.observation import LAYOUT
from fcnet_core.policies import Layers, PolicyConfig, PolicyType, Size
from fcnet_core.policies.body_transformer.graph import Entries, leg_graph
from fcnet_core.robot import LEGS, Robot

EXPANSION = 4  # inner width of a block's perceptron over that of its tokens
EMPTY = -1e30  # added to the score of what is not to be seen: its share is then 0
LAST_ACTION = tuple(range(LAYOUT["last_action"].start, LAYOUT["last_action"].stop))
Connection = Literal["layer_wise", "fusion", "pooled_only", "stack"]


LONGEST_WINDOW = 1024  # [steps]; memory and time of a step grow with its square


class Group(Struct, frozen=True, forbid_unknown_fields=True):
    """Entries of the observation that are one token."""

    name: str
    observation: Annotated[Entries, Meta(min_length=1)]


def leg_groups(legs: Sequence[str] = LEGS) -> tuple[Group, ...]:
    """The nodes of the body with what is measured there, without the last action."""
    return tuple(
        Group(node.name, tuple(entry for entry in node.observation if entry not in LAST_ACTION))
        for node in leg_graph(legs).nodes
    )


class StarformerConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network: those of the authors' vector form, with groups of entries as tokens.

    groups: an entry is in one of them at most; last_action, reward: entries of the observation, too.
    connection: `layer_wise` attends to g beside h; `fusion` adds g, without time, to h; `pooled_only` adds g to an h
    that begins as zero; `stack` pools after the last step layer alone, and h begins as that. hidden, heads: of the
    sequence transformer; token_width, token_heads: of the step transformer. time_table: how many steps have a time
    vector, at least as many as the window has. Raises ValueError where sizes and entries do not fit each other.
    """

    observation: Size = 70
    action: Size = 12
    groups: Annotated[tuple[Group, ...], Meta(min_length=1, max_length=256)] = field(default_factory=leg_groups)
    tokens: Literal["groups", "scalars"] = "groups"
    last_action: Annotated[Entries, Meta(min_length=1)] = LAST_ACTION
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
            raise ValueError(f"the window has {self.window} steps, {LONGEST_WINDOW} are possible; choose a shorter one")
        check_sizes(self.hidden, self.heads, self.token_width, self.token_heads)
        if self.window > self.time_table:
            raise ValueError(
                f"the window ({self.window}) is longer than the time table ({self.time_table} steps); choose a window "
                f"of at most {self.time_table} or a longer time_table"
            )
        reward = () if self.reward is None else (self.reward,)
        for name, entries in (
            *((f"group {group.name}", group.observation) for group in self.groups),
            ("last_action", self.last_action),
            ("reward", reward),
        ):
            if entries and max(entries) >= self.observation:
                entry, last = max(entries), self.observation - 1
                raise ValueError(f"{name} has the unknown entry {entry} of the observation; choose 0 to {last}")
        for name, entries in (("groups", self.state_entries.tolist()), ("last_action", self.last_action)):
            entry, count = Counter(entries).most_common(1)[0]
            if count > 1:
                raise ValueError(f"{name} has entry {entry} of the observation {count} times; name it once")
        super().__post_init__()

    @property
    def memory_steps(self) -> int:
        """The window without the present step."""
        return self.window - 1

    @property
    def state_entries(self) -> npt.NDArray[np.intp]:
        """The entries of the observation that groups see, group after group."""
        return np.array([entry for group in self.groups for entry in group.observation], dtype=np.intp)

    @property
    def state_tokens(self) -> npt.NDArray[np.intp]:
        """To which of the tokens of the state, 0, 1, ..., each of the state entries belongs."""
        sizes = [len(group.observation) for group in self.groups]
        return np.arange(sum(sizes)) if self.tokens == "scalars" else np.repeat(np.arange(len(sizes)), sizes)

    @property
    def step_tokens(self) -> int:
        """Tokens of a step: the last action, the state, and the reward where there is one."""
        return 1 + int(self.state_tokens[-1]) + 1 + (self.reward is not None)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every weight; linear weights are (outputs, inputs).

        tokenizer.weight has the columns of all groups one after the other, or one column that all scalars share.
        """
        d, hidden, entries = self.token_width, self.hidden, len(self.state_entries)
        linear = {"tokenizer.action": (d, len(self.last_action)), "head": (self.action, hidden)}
        if self.reward is not None:
            linear["tokenizer.reward"] = (d, 1)
        if has_pure_state(self.connection):
            linear["state"] = (hidden, entries)
        norms = {"encoder.norm": hidden}
        for part, width in (("step", d), ("sequence", hidden)):
            for layer in range(self.layers):
                prefix = f"encoder.{part}_layers.{layer}."
                inner = EXPANSION * width
                linear |= {prefix + "qkv": (3 * width, width), prefix + "project": (width, width)}
                linear |= {prefix + "expand": (inner, width), prefix + "contract": (width, inner)}
                norms |= {prefix + "norm1": width, prefix + "norm2": width}
        for pooling in range(poolings(self.connection, self.layers)):
            prefix = f"encoder.pooling.{pooling}."
            linear[prefix + "project"] = (hidden, self.step_tokens * d)
            norms |= {prefix + "norm": hidden} | ({} if self.connection == "stack" else {prefix + "token_norm": d})
        shapes: dict[str, tuple[int, ...]] = {"encoder.time": (self.time_table, hidden)}
        if self.tokens == "groups":
            shapes |= {"tokenizer.weight": (d, entries), "tokenizer.bias": (len(self.groups), d)}
        else:
            shapes |= {"tokenizer.weight": (d, 1), "tokenizer.bias": (d,), "tokenizer.positions": (entries, d)}
        for name, shape in linear.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        for name, width in norms.items():
            shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
        return shapes

    def check_robot(self, robot: Robot) -> None:
        """Raise FcnetError where the groups or the last action are not those of the robot's observation."""
        grouped = self.tokens == "scalars" or self.groups == leg_groups(robot.legs)
        if not grouped or self.last_action != LAST_ACTION:
            raise FcnetError(
                f"the network's {len(self.groups)} groups and last action do not fit the observation of {robot.name}; "
                "leave groups and last_action out of the configuration, train again, or choose another model"
            )


def check_sizes(hidden: int, heads: int, token_width: int, token_heads: int) -> None:
    """Raise ValueError where heads do not divide the channels."""
    for name, width, number in (("hidden", hidden, heads), ("token_width", token_width, token_heads)):
        if width % number:
            raise ValueError(f"{name} ({width}) cannot be divided among {number} heads; choose heads so that it can")


def has_pure_state(connection: Connection) -> bool:
    """Whether h begins as the pure state."""
    return connection in ("layer_wise", "fusion")


def poolings(connection: Connection, layers: int) -> int:
    """How often the tokens of a step are pooled."""
    return 1 if connection == "stack" else layers


POLICY = PolicyType(
    package=__name__,
    config=StarformerConfig,
    network="network:Starformer",
    step="step:Step",
    sequence="step:Sequence",
    numba="numba_step:numba_step",
    onnx="onnx_step:add_to_graph",
)
