"""The settings of a teacher's training."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fcnet_core.files import Count, NotNegative, Positive, Seed


class TeacherConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of imitation, robots and PPO (Schulman et al., 2017), the latter in the words of stable-baselines3."""

    hidden: Annotated[tuple[Count, ...], Meta(min_length=1)] = (256, 256, 128)
    imitation_steps: Count = 1200  # control periods of all robots that the trot shows
    imitation_epochs: Count = 8
    robots: Count = 96  # of each worker
    groups: Count = 8  # of these, each on a terrain of its own
    renewal: Count = 720  # control periods after which the oldest group makes place for the next
    n_steps: Count = 48
    batch_size: Count = 2304
    n_epochs: Count = 5
    learning_rate: Positive = 1e-4
    critic_learning_rate: Positive = 1e-3
    gamma: Positive = 0.99
    gae_lambda: Positive = 0.95
    clip_range: Positive = 0.2
    target_kl: Positive = 0.02
    action_deviation: Positive = 0.15  # of the exploration at first, in units of the action
    entropy: NotNegative = 0.0
    critic_rounds: Count = 15  # at first, in which the critic alone learns
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.groups > self.robots:
            raise ValueError(f"{self.robots} robots cannot form {self.groups} groups")
