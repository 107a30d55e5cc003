"""A job: one policy trained on one part of the data, and its error on the validation data, by any process."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from msgspec import Struct
from msgspec.structs import replace as changed

from fcnet_core.control.envelope import Envelope
from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import TrainConfig
from fcnet_core.learning.dataset import Dataset, Shard
from fcnet_core.model_file import PolicyModel
from fcnet_core.policy import load_policy


class Trained(Struct, frozen=True, kw_only=True):
    """The result of a job. validation_error: root mean square [rad], None where training diverged; seconds: processor
    time of training.
    """

    variant: str
    share: float
    seed: int
    learning_rate: float
    parameters: int
    steps: int
    validation_error: float | None
    seconds: float


@dataclass(frozen=True)
class TrainJob:
    """What to train on which part of the data; `validation` is a data folder. envelope: of the commands that the policy
    accepts, that of all the data, so that policies of small parts meet the same commands as others.
    """

    variant: str
    share: float
    settings: TrainConfig
    validation: str
    envelope: Envelope | None

    @property
    def name(self) -> str:
        """Names the job's files."""
        settings = self.settings
        return f"{self.variant}-{100 * self.share:g}-seed{settings.seed}-lr{settings.learning_rate:g}"

    def run(self) -> tuple[Trained, PolicyModel | None]:
        """The result, and the policy unless training diverged."""
        from fcnet_core.learning.imitation import Imitation

        imitation = Imitation(self.settings)
        begun = time.process_time()
        try:
            imitation.trainer.run(report=lambda _progress: None, stop=lambda: False)
        except FcnetError:  # without a checkpoint there is nothing to fail but divergence
            return self._result(imitation.trainer.progress.step, time.process_time() - begun, None), None
        seconds = time.process_time() - begun
        model = imitation.policy(f"fcnet study, {self.name}")
        model = replace(model, card=changed(model.card, envelope=self.envelope))
        error = validation_error(model, Dataset(self.validation))
        return self._result(self.settings.steps or 0, seconds, error), model

    def _result(self, steps: int, seconds: float, error: float | None) -> Trained:
        settings = self.settings
        return Trained(
            variant=self.variant,
            share=self.share,
            seed=settings.seed,
            learning_rate=settings.learning_rate,
            parameters=settings.policy_config.parameters,
            steps=steps,
            validation_error=error,
            seconds=round(seconds, 1),
        )


def validation_error(model: PolicyModel, data: Dataset) -> float:
    """Root mean square [rad] of the difference from the labels over every step, for a policy that steps through whole
    sequences as on the robot and forgets where an episode begins.
    """
    total, count = 0.0, 0
    by_length = sorted(data.shards, key=lambda shard: shard.first.shape[1])
    for _, shards in groupby(by_length, key=lambda shard: shard.first.shape[1]):
        squares, entries = _squares(model, list(shards))
        total, count = total + squares, count + entries
    return math.sqrt(total / count)


def _squares(model: PolicyModel, shards: list[Shard]) -> tuple[float, int]:
    """Sum and number of squared differences over shards of one length, all their robots at once."""
    first, seen, wanted = (
        np.concatenate([getattr(shard, name) for shard in shards]) for name in ("first", "observation", "action")
    )
    policy = load_policy(model, batch=len(first))
    total = 0.0
    for step in range(first.shape[1]):
        policy.reset(first[:, step])
        total += float(np.square(policy.step(seen[:, step]) - wanted[:, step], dtype=np.float64).sum())
    return total, wanted.size
