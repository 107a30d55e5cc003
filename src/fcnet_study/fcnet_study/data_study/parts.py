"""The parts of a dataset that jobs train on, each within the next larger one, and the part that none trains on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tqdm import tqdm

from fcnet_core.errors import StudyError
from fcnet_core.learning.dataset import Dataset, DatasetWriter

VALIDATION = "validation"
HELD_OUT = 16  # of so many sequences of a shard one is for validation, and one at least


def part_name(share: float) -> str:
    """The folder of a share of the data."""
    return f"{100 * share:g}"


def write_parts(data: Dataset, folder: Path, shares: Iterable[float]) -> None:
    """Write FOLDER/validation and FOLDER/SHARE for every share of the rest of the data, in whole sequences.

    A shard is one kind of recording (terrain, commands), so that every part takes from each shard as evenly as whole
    sequences allow. What is there already stays. Raises StudyError when nothing is left to train on or to validate.
    """
    counts = [len(shard.first) for shard in data.shards]
    kept = [count - (max(1, round(count / HELD_OUT)) if count > 1 else 0) for count in counts]
    if kept == counts:
        raise StudyError(f"no shard of {data.folders[0]} has two sequences, one of which could be for validation")
    order = np.random.default_rng(0).permutation(len(kept)).tolist()  # a part may end in the middle of a round
    rounds = [(shard, sequence) for sequence in range(max(kept)) for shard in order if sequence < kept[shard]]
    chosen = {VALIDATION: [(s, q) for s, count in enumerate(counts) for q in range(kept[s], count)]}
    chosen |= {part_name(share): rounds[: max(1, round(share * len(rounds)))] for share in shares}
    for name, sequences in tqdm(chosen.items(), desc="dividing the data", leave=False, disable=None):
        _write(data, folder / name, sequences)


def _write(data: Dataset, folder: Path, sequences: list[tuple[int, int]]) -> None:
    facts = {"source": "study", "part": folder.name, "of": [str(source) for source in data.folders]}
    described = {**facts, "descriptions": [manifest.description for manifest in data.manifests]}
    manifest = type(data.manifest)(
        data.manifest.robot, data.manifest.control_rate, described, data.manifest.joint_names, data.manifest.arrays
    )
    writer = DatasetWriter(folder, manifest)
    for index, shard in enumerate(data.shards):
        rows = [sequence for number, sequence in sequences if number == index]
        if rows and not writer.has(index):
            writer.write_shard(index, shard.job, **{name: array[rows] for name, array in shard.arrays.items()})
