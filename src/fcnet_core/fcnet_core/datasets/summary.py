"""What a dataset holds, in figures: sizes, every entry's spread, the commands it covers, targets at their limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.dataset import Dataset
from fcnet_core.datasets.entry_names import ACTION_NAMES, COMMAND_NAMES, OBSERVATION_NAMES
from fcnet_core.observation import LAYOUT
from fcnet_core.robot import SETPOINT_FIELDS, Robot

Array = npt.NDArray[np.float64]
Rows = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]

CHUNK = 16_384  # steps in memory at a time
BINS = 12  # of a command's range
AT_LIMIT = 1e-3  # [rad] a target this near to a limit is at it
NAMES = OBSERVATION_NAMES + ACTION_NAMES


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation, smallest and largest value of every entry (82,), in the order of NAMES."""

    mean: Array
    std: Array
    lowest: Array
    highest: Array


@dataclass(frozen=True)
class Summary:
    """shards, sequences, episodes, steps: how many; seconds: of robot time; coverage: setpoint field -> share of steps
    (BINS,) in each part of its range; idle: field -> whether it is always zero; walking: share of steps with the walk
    flag; at_limit (12,): share of steps with that joint's target at a limit; any_at_limit: with any joint's.
    """

    shards: int
    sequences: int
    episodes: int
    steps: int
    seconds: float
    spread: Spread
    coverage: dict[str, Array]
    idle: dict[str, bool]
    walking: float
    at_limit: Array
    any_at_limit: float


def summarise(data: Dataset, robot: Robot) -> Summary:
    """Read all of `data` once, CHUNK steps at a time."""
    count, total, square = 0, np.zeros(len(NAMES)), np.zeros(len(NAMES))
    lowest, highest = np.full(len(NAMES), np.inf), np.full(len(NAMES), -np.inf)
    histogram = {field: np.zeros(BINS) for field in SETPOINT_FIELDS}
    at_limit, any_at_limit = np.zeros(len(ACTION_NAMES)), 0
    for observation, action in chunks(data):
        rows = np.hstack([observation, action]).astype(np.float64)
        count, total, square = count + len(rows), total + rows.sum(0), square + np.square(rows).sum(0)
        lowest, highest = np.minimum(lowest, rows.min(0)), np.maximum(highest, rows.max(0))
        for field in SETPOINT_FIELDS:
            histogram[field] += _histogram(robot, field, rows[:, command_entry(field)])
        hits = (action <= robot.lower + AT_LIMIT) | (action >= robot.upper - AT_LIMIT)
        at_limit, any_at_limit = at_limit + hits.sum(0), any_at_limit + int(hits.any(axis=1).sum())
    mean = total / count
    spread = Spread(mean, np.sqrt(np.maximum(square / count - mean**2, 0.0)), lowest, highest)
    entries = {field: command_entry(field) for field in SETPOINT_FIELDS}
    return Summary(
        shards=len(data.shards),
        sequences=sum(shard.first.shape[0] for shard in data.shards),
        episodes=sum(_episodes(shard.first) for shard in data.shards),
        steps=count,
        seconds=count / data.manifest.control_rate,
        spread=spread,
        coverage={field: counts / count for field, counts in histogram.items()},
        idle={field: bool(lowest[entry] == highest[entry] == 0.0) for field, entry in entries.items()},
        walking=float(mean[command_entry("walk")]),
        at_limit=at_limit / count,
        any_at_limit=any_at_limit / count,
    )


def chunks(data: Dataset) -> Iterator[Rows]:
    """All steps, as observations (N, 70) and actions (N, 12)."""
    for shard in data.shards:
        observation, action = (array.reshape(-1, array.shape[-1]) for array in (shard.observation, shard.action))
        for start in range(0, len(observation), CHUNK):
            yield observation[start : start + CHUNK], action[start : start + CHUNK]


def command_entry(name: str) -> int:
    """Where in the observation a command of that name is."""
    return LAYOUT["command"].start + COMMAND_NAMES.index(name)


def _histogram(robot: Robot, field: str, values: Array) -> Array:
    """Counts (BINS,) over the field's range; what lies beyond counts in the outermost parts."""
    limits = robot.commands[field]
    place = (values - limits.lowest) / (limits.highest - limits.lowest) * BINS
    return np.bincount(np.clip(place, 0, BINS - 1).astype(int), minlength=BINS).astype(np.float64)


def _episodes(first: npt.NDArray[np.bool_]) -> int:
    return int(first.sum() + (~first[:, 0]).sum())
