"""What defines a study of the A1-Walk task: one YAML file of config/study/."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fcnet_core.files import Count, NotNegative, Positive, Seed
from fcnet_core.learning.config import Precision

Architecture = Literal["mix", "hard", "dense", "mlp"]


class WalkTraining(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PPO (Schulman et al., 2017) in the words of stable-baselines3, and how its policies are evaluated.

    robots: of all processes together; n_steps: control periods of each between two updates, divided into minibatches;
    learning_rate: the actor's first, see WalkPPO; deviation: of the exploration at first, in units of the action;
    precision: of products of matrices; evaluation_interval: control steps of all robots between two evaluations, in
    which evaluation_robots walk with exploration and as many without, for evaluation_periods at most.
    """

    robots: Count = 64
    n_steps: Count = 24
    minibatches: Count = 4
    n_epochs: Count = 5
    learning_rate: Positive = 1e-3
    critic_learning_rate: Positive = 5e-4
    target_kl: Positive = 0.02
    deviation: Positive = 1.0
    gamma: Positive = 0.99
    gae_lambda: Positive = 0.95
    clip_range: Positive = 0.2
    ent_coef: NotNegative = 0.01
    max_grad_norm: Positive = 1.0
    precision: Precision = "float32"
    evaluation_interval: Count = 25_000
    evaluation_robots: Count = 16
    evaluation_periods: Count = 1000

    def __post_init__(self) -> None:
        if self.robots * self.n_steps % self.minibatches:
            raise ValueError(
                f"{self.robots} robots x {self.n_steps} n_steps cannot be divided into {self.minibatches} minibatches"
            )


class WalkConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file: every architecture learns with every seed for so many control steps, those of all robots together.

    A study may be continued with more architectures, seeds and steps.
    """

    architectures: Annotated[tuple[Architecture, ...], Meta(min_length=1)] = ("mix", "hard", "dense", "mlp")
    seeds: Annotated[tuple[Seed, ...], Meta(min_length=1, max_length=100)] = (0, 1, 2)
    steps: Count
    training: WalkTraining = WalkTraining()

    def __post_init__(self) -> None:
        for name in ("architectures", "seeds"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} is {list(values)}, expected every value once")
