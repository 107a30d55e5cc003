"""Which node of its body a Body Transformer looks at, over a recorded walk.

The policy sees what the recorded one saw. Its attention is the share (0 to 1) of each node's values in what a node
finds; those of one node add up to 1 in every layer and head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from fcnet_core.arrays import Array, Floats, Single
from fcnet_core.control.command import gait_phase
from fcnet_core.errors import StudyError
from fcnet_core.learning.dataset import Dataset
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.body_transformer import BodyTransformerConfig
from fcnet_core.policies.body_transformer.step import Sequence
from fcnet_study.recorded import episodes

PARTS = 20  # of a stride, around 0, 1 / 20, ...: at 50 Hz and 2.5 strides a second a step each
EXCERPT = 3.0  # [s] of the longest episode that are kept step by step, from its first stride on


@dataclass(frozen=True)
class WalkAttention:
    """Attention from n nodes (rows) to n nodes in L layers of H heads.

    mean (L, H, n, n): over all steps; strides (PARTS, L, H, n, n): over the steps of each phase k / PARTS, NaN where
    there are none; excerpt (K, L, H, n, n): in each of successive steps. steps: how many there are, of how many that
    were recorded; rate [Hz].
    """

    config: BodyTransformerConfig
    mean: Array
    strides: Array
    excerpt: Array
    steps: int
    recorded: int
    rate: float

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes."""
        return tuple(node.name for node in self.config.graph.nodes)

    @property
    def has_phase(self) -> bool:
        """Whether the gait's phase of any step is known."""
        return bool(np.isfinite(self.strides).any())

    def of_head(self, head: int | None) -> WalkAttention:
        """That of one head, 0, 1, ..., or the mean of all, as if there were no other."""
        chosen = slice(None) if head is None else slice(head, head + 1)
        mean, strides, excerpt = (
            array[..., chosen, :, :].mean(-3, keepdims=True) for array in (self.mean, self.strides, self.excerpt)
        )
        return WalkAttention(self.config, mean, strides, excerpt, self.steps, self.recorded, self.rate)

    def variation(self) -> Array:
        """Standard deviation (L, H, n, n) over the stride; over the excerpt where the gait's phase is not known."""
        return np.nanstd(self.strides, axis=0) if self.has_phase else self.excerpt.std(0)


def attending_config(model: PolicyModel, path: Path) -> BodyTransformerConfig:
    """The configuration of a Body Transformer. Raises StudyError for another policy."""
    config = model.card.config
    if not isinstance(config, BodyTransformerConfig):
        raise StudyError(
            f"{path} is a policy of type {model.card.policy_type}, in which no node of a body looks at another; give a "
            "Body Transformer, such as `fcnet train --config config/train/body_transformer_mix.yaml` makes"
        )
    return config


def check_fits(model: PolicyModel, data: Dataset, source: Path) -> None:
    """Raise StudyError where the walk is not one of the body that the model is of."""
    card, manifest = model.card, data.manifest
    seen = {name: spec.shape for name, spec in manifest.arrays.items() if name == "observation"}
    for what, own, recorded in (
        ("robot", card.robot, manifest.robot),
        ("joints", card.joint_names, manifest.joint_names),
        ("observation", {name: spec.shape for name, spec in card.config.observation_spec.items()}, seen),
        ("rate [Hz]", float(card.control_rate), manifest.control_rate),
    ):
        if own != recorded:
            raise StudyError(
                f"the model's {what} is {own}, but that of {source} is {recorded}; choose a model or a walk that fits"
            )


def attention_over(model: PolicyModel, data: Dataset, most: int) -> WalkAttention:
    """The attention of a Body Transformer over the first `most` steps of data that fit it."""
    config: BodyTransformerConfig = model.card.config
    command = data.manifest.arrays["observation"].slices().get("command", slice(0))
    walks = list(_observations(data, most))
    longest = max(range(len(walks)), key=lambda index: len(walks[index]))
    nodes = len(config.graph.nodes)
    total, counts = np.zeros((PARTS + 1, config.layers, config.heads, nodes, nodes)), np.zeros(PARTS + 1)
    excerpt: list[Floats] = []
    for index, walk in enumerate(tqdm(walks, desc="attending", unit="episode", leave=False, disable=None)):
        unknown = np.full(len(walk), np.nan)
        phase = gait_phase(walk[:, command]) if walk[:, command].size else unknown
        part = np.where(np.isnan(phase), PARTS, np.rint(PARTS * np.nan_to_num(phase)) % PARTS).astype(
            np.intp
        )  # the last: unknown
        begin = int((part < PARTS).argmax())
        kept = slice(begin, begin + round(EXCERPT * data.manifest.control_rate)) if index == longest else slice(0)
        done = 0
        for block in _attention(model, walk):
            here = part[done : done + len(block)]
            for place in np.unique(here):
                total[place] += block[here == place].sum(0)
            counts += np.bincount(here, minlength=PARTS + 1)
            excerpt.append(block[max(kept.start or 0, done) - done : max(kept.stop - done, 0)])
            done += len(block)
    with np.errstate(invalid="ignore"):  # of parts without a step
        strides = total[:PARTS] / counts[:PARTS, None, None, None, None]
    return WalkAttention(
        config,
        total.sum(0) / counts.sum(),
        strides,
        np.concatenate(excerpt).astype(np.float64),
        int(counts.sum()),
        data.steps,
        data.manifest.control_rate,
    )


def _observations(data: Dataset, most: int) -> Iterator[Single]:
    """Observations (T, observation) of each episode in turn, of so many steps at most."""
    for shard in data.shards:
        for sequence, start, end in episodes(shard.first):
            taken = min(end - start, most)
            if not taken:
                return
            yield np.array(shard.observation[sequence, start : start + taken])
            most -= taken


def _attention(model: PolicyModel, walk: Single) -> Iterator[Floats]:
    """Attention (B, L, H, n, n) in all steps of a walk that begins after a reset, B at a time."""
    seen, sequence = model.normalisation.input(walk).astype(np.float32), Sequence(model)
    length = model.card.reset_interval or len(seen)
    for start in range(0, len(seen), length):
        yield from sequence.attention(seen[start : start + length])
