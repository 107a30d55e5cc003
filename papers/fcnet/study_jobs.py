"""The parts of a data set, and the job that trains one policy on one part and computes its validation error."""

import math
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace as changed

from fcnet_core.control.envelope import Envelope
from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import TrainConfig, with_settings
from fcnet_core.learning.dataset import Dataset, DatasetWriter
from fcnet_core.model_file import PolicyModel
from fcnet_core.policy import load_policy

VALIDATION = "validation"
HELD_OUT = 16  # one of so many sequences of a shard is for validation, at least one


def part_name(share: float) -> str:
    """Return the folder name of a share of the data."""
    return f"{100 * share:g}"


def write_parts(data: Dataset, folder: Path, shares: Iterable[float]) -> None:
    """Write FOLDER/validation and FOLDER/SHARE for every share of the other data, in whole sequences.

    A shard is one kind of recording (terrain, commands), so every part takes sequences evenly from all shards, and each
    part lies within the next larger one. Existing shards are kept. Raises FcnetError if no shard can be divided.
    """
    counts = [len(shard.first) for shard in data.shards]
    kept = [count - (max(1, round(count / HELD_OUT)) if count > 1 else 0) for count in counts]
    if kept == counts:
        raise FcnetError(f"no shard of {data.folders[0]} has a second sequence for validation")
    order = np.random.default_rng(0).permutation(len(kept)).tolist()  # a part may end in the middle of a round
    rounds = [(shard, sequence) for sequence in range(max(kept)) for shard in order if sequence < kept[shard]]
    chosen = {VALIDATION: [(s, q) for s, count in enumerate(counts) for q in range(kept[s], count)]}
    chosen |= {part_name(share): rounds[: max(1, round(share * len(rounds)))] for share in shares}
    for name, sequences in chosen.items():
        described = {"source": "study", "part": name, "of": [str(source) for source in data.folders]}
        manifest = changed(data.manifest, description=described)
        writer = DatasetWriter(folder / name, manifest)
        for index, shard in enumerate(data.shards):
            rows = [sequence for number, sequence in sequences if number == index]
            if rows and not writer.has(index):
                writer.write_shard(index, shard.job, **{key: array[rows] for key, array in shard.arrays.items()})


class Trained(Struct, frozen=True, kw_only=True):
    """The result of a job. validation_error: RMS [rad], None if training diverged; seconds: processor time."""

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
    """Training of a variant on a share of the data; any process can run it."""

    variant: str
    share: float
    settings: TrainConfig

    @property
    def name(self) -> str:
        """The name of the job's files."""
        settings = self.settings
        return f"{self.variant}-{100 * self.share:g}-seed{settings.seed}-lr{settings.learning_rate:g}"

    def run(self, parts: Path, envelope: Envelope | None) -> tuple[Trained, PolicyModel | None]:
        """Train on a part of `parts`. Return the result, and the policy unless training diverged.

        envelope: of the accepted commands, derived from all data, so that policies of small parts get the same ones.
        """
        from fcnet_core.learning.imitation import Imitation

        imitation = Imitation(with_settings(self.settings, data=(str(parts / part_name(self.share)),), threads=1))
        model, started = None, time.process_time()
        with suppress(FcnetError):  # without a checkpoint only divergence is reported
            imitation.trainer.run(report=lambda _progress: None, stop=lambda: False)
            model = imitation.policy(f"study, {self.name}")
            commands = changed(model.card.interface.commands, envelope=envelope)
            interface = changed(model.card.interface, commands=commands)
            model = replace(model, card=changed(model.card, interface=interface))
        seconds = time.process_time() - started
        trained = Trained(
            variant=self.variant,
            share=self.share,
            seed=self.settings.seed,
            learning_rate=self.settings.learning_rate,
            parameters=self.settings.policy_config.parameters,
            steps=imitation.trainer.progress.step,
            validation_error=validation_error(model, Dataset(parts / VALIDATION)) if model else None,
            seconds=round(seconds, 1),
        )
        return trained, model


def validation_error(model: PolicyModel, data: Dataset) -> float:
    """Return the RMS difference from the labels [rad] of a policy that steps through whole sequences as on the robot,
    and is reset at the start of every episode.
    """
    total, count = 0.0, 0
    for length in {shard.first.shape[1] for shard in data.shards}:  # all sequences of one length at once
        shards = [shard for shard in data.shards if shard.first.shape[1] == length]
        first, seen, labels = (
            np.concatenate([getattr(shard, name) for shard in shards]) for name in ("first", "observation", "action")
        )
        policy = load_policy(model, batch=len(first))
        for step in range(length):
            policy.reset(first[:, step])
            total += float(np.square(policy.step(seen[:, step]) - labels[:, step], dtype=np.float64).sum())
        count += labels.size
    return math.sqrt(total / count)
