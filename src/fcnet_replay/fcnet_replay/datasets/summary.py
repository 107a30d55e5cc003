"""What a dataset holds, in figures and as text, and how far it is from what a policy was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.command import COMMAND_SIZE
from fcnet_core.learning.dataset import Dataset, DatasetError, Manifest
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.normalisation import COMMAND_STD_FLOOR, STD_FLOOR
from fcnet_core.observation import ACTION_SIZE, LAYOUT, OBSERVATION_SIZE
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS, Robot

# A name for every entry of observations and actions, for people who read about one.

COMMAND_NAMES = (*SETPOINT_FIELDS[:8], "phase_sine", "phase_cosine", "walk", SETPOINT_FIELDS[8])
_PARTS = {
    "projected_gravity": tuple("xyz"),
    "angular_velocity": tuple("xyz"),
    "command": (*COMMAND_NAMES, *(f"unused_{index}" for index in range(len(COMMAND_NAMES), COMMAND_SIZE))),
}
OBSERVATION_NAMES = tuple(f"{field}.{part}" for field in LAYOUT for part in _PARTS.get(field, JOINT_NAMES))
ACTION_NAMES = tuple(f"action.{joint}" for joint in JOINT_NAMES)


# What a dataset holds, in figures: sizes, every entry's spread, the commands it covers, targets at their limits.

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


# How far a dataset is from what a policy was trained on, or from another dataset.

SHIFT = 0.5  # of the other's standard deviations; a mean farther away has drifted
WIDER, NARROWER = 2.0, 0.5  # times the other's standard deviation


@dataclass(frozen=True)
class Reference:
    """What is compared with: mean and std of the first entries of NAMES, in the units of training; clip: beyond how
    many standard deviations a policy sees nothing, None for data.
    """

    name: str
    mean: Array
    std: Array
    clip: float | None = None


@dataclass(frozen=True)
class Drift:
    """Of one entry: shift of its mean in the other's standard deviations, ratio of the standard deviations, and
    whether some of its values lie beyond what the policy can see.
    """

    name: str
    shift: float
    ratio: float
    clipped: bool


def reference(path: Path, manifest: Manifest, robot: Robot) -> Reference:
    """A policy's file or a data folder of the same robot and rate to compare data with.

    Raises DatasetError or ModelFileError when there is none, or when it is of another robot or rate.
    """
    if path.suffix == ".safetensors":
        model = load_model(path)
        _check_same(path, model.card.robot, model.card.control_rate, manifest)
        return _of_model(str(path), model)
    data = Dataset(path)
    _check_same(path, data.manifest.robot, data.manifest.control_rate, manifest)
    return _of_data(str(path), summarise(data, robot))


def _check_same(path: Path, robot: str, rate: float, manifest: Manifest) -> None:
    if (robot, rate) != (manifest.robot, manifest.control_rate):
        raise DatasetError(
            f"{path} is of {robot} at {rate:g} Hz, the data are of {manifest.robot} at {manifest.control_rate:g} Hz; "
            "compare with one of the same robot and rate"
        )


def _of_model(name: str, model: PolicyModel) -> Reference:
    """A policy's normalisation, which tells of observations alone."""
    mean, std = (model.scales[f"observation_{name}"].astype(np.float64) for name in ("mean", "std"))
    return Reference(name, mean, std, model.card.observation_clip)


def _of_data(name: str, summary: Summary) -> Reference:
    """Another dataset; as in training an entry that hardly moves is not blown up."""
    std = summary.spread.std + STD_FLOOR
    std[LAYOUT["command"]] = np.maximum(std[LAYOUT["command"]], COMMAND_STD_FLOOR)
    return Reference(name, summary.spread.mean, std)


def drifted(summary: Summary, reference: Reference) -> list[Drift]:
    """The entries that have drifted, the farthest first."""
    size = len(reference.mean)
    spread = summary.spread
    shift = (spread.mean[:size] - reference.mean) / reference.std
    floor = np.full(size, STD_FLOOR)
    floor[LAYOUT["command"]] = 0.0
    ratio = (spread.std[:size] + floor) / reference.std
    far = np.maximum(spread.highest[:size] - reference.mean, reference.mean - spread.lowest[:size]) / reference.std
    clipped = far > (reference.clip or np.inf)
    moved = (np.abs(shift) > SHIFT) | (ratio > WIDER) | ((ratio < NARROWER) & _uses(reference))
    order = np.argsort(-np.abs(shift))
    return [
        Drift(NAMES[entry], float(shift[entry]), float(ratio[entry]), bool(clipped[entry]))
        for entry in order
        if moved[entry] or clipped[entry]
    ]


def _uses(reference: Reference) -> npt.NDArray[np.bool_]:
    """Entries that the other really uses: those at their floor cannot be narrower."""
    floor = np.full(len(reference.std), STD_FLOOR)
    floor[LAYOUT["command"]] = COMMAND_STD_FLOOR
    uses: npt.NDArray[np.bool_] = reference.std > 1.01 * floor
    return uses


# A summary as text for a terminal, and as figures for JSON.

BARS = " ▁▂▃▄▅▆▇█"
MANY = 20  # drifted entries told
FIELDS = {**LAYOUT, "action": slice(OBSERVATION_SIZE, OBSERVATION_SIZE + ACTION_SIZE)}


def summary_lines(manifest: Manifest, summary: Summary, robot: Robot, every_entry: bool) -> Iterator[str]:
    """Sizes, spread, coverage and saturation; every_entry: a line for each of the 82 entries, not for each field."""
    yield (
        f"{manifest.robot}, {manifest.control_rate:g} Hz: {summary.steps:,} steps ({summary.seconds / 3600:.3g} h) in "
        f"{summary.episodes:,} episodes, {summary.sequences:,} sequences, {summary.shards:,} shards"
    )
    yield f"\n{'entry':<30}{'mean':>10}{'std':>10}{'min':>10}{'max':>10}"
    yield from _entries(summary) if every_entry else _fields(summary)
    yield f"\ncommands, share of steps over each one's range (walking: {summary.walking:.0%})"
    for field, shares in summary.coverage.items():
        limits = robot.commands[field]
        bars = "always 0" if summary.idle[field] else f"[{_bars(shares)}]"
        yield f"{field:<12}{limits.lowest:>7g} {bars:^14} {limits.highest:<7g}"
    yield f"\ntargets at a joint limit: {summary.any_at_limit:.2%} of the steps"
    for joint in np.argsort(-summary.at_limit)[:3]:
        if summary.at_limit[joint]:
            yield f"  {JOINT_NAMES[joint]:<20}{summary.at_limit[joint]:.2%}"


def drift_lines(reference: Reference, drift: Sequence[Drift]) -> Iterator[str]:
    """Which entries are not as in the other, and how."""
    if not drift:
        yield f"\nno drift against {reference.name}"
        return
    yield f"\ndrift against {reference.name}: {len(drift)} of {len(reference.mean)} entries"
    yield f"{'entry':<36}{'shift [std]':>12}{'std ratio':>12}"
    for entry in drift[:MANY]:
        beyond = "  has values that the policy sees clipped" if entry.clipped else ""
        yield f"{entry.name:<36}{entry.shift:>+12.2f}{entry.ratio:>12.2f}{beyond}"
    if len(drift) > MANY:
        yield f"and {len(drift) - MANY} more; --json tells all"


def summary_figures(
    manifest: Manifest, summary: Summary, reference: Reference | None, drift: Sequence[Drift]
) -> dict[str, Any]:
    """Everything as numbers and texts, fit for JSON."""
    spread = summary.spread
    figures: dict[str, Any] = {
        "robot": manifest.robot,
        "control_rate": manifest.control_rate,
        **{name: getattr(summary, name) for name in ("shards", "sequences", "episodes", "steps", "seconds", "walking")},
        "entries": {
            name: dict(zip(("mean", "std", "min", "max"), map(float, figures), strict=True))
            for name, *figures in zip(NAMES, spread.mean, spread.std, spread.lowest, spread.highest, strict=True)
        },
        "coverage": {field: shares.tolist() for field, shares in summary.coverage.items()},
        "at_limit": dict(zip(JOINT_NAMES, summary.at_limit.tolist(), strict=True)),
        "any_at_limit": summary.any_at_limit,
    }
    if reference is not None:
        figures["drift"] = {"against": reference.name, "entries": [vars(entry) for entry in drift]}
    return figures


def _fields(summary: Summary) -> Iterator[str]:
    """Entries of all joints taken together, others each for itself."""
    for field, entries in FIELDS.items():
        if "joint" not in field and "action" not in field:
            yield from _entries(summary, entries)
            continue
        spread = summary.spread
        mean = spread.mean[entries].mean()
        std = np.sqrt((spread.std[entries] ** 2 + spread.mean[entries] ** 2).mean() - mean**2)
        yield _line(field, mean, std, spread.lowest[entries].min(), spread.highest[entries].max())


def _entries(summary: Summary, chosen: slice = slice(None)) -> Iterator[str]:
    spread = summary.spread
    figures = zip(NAMES, spread.mean, spread.std, spread.lowest, spread.highest, strict=True)
    for name, *numbers in list(figures)[chosen]:
        if "unused" not in name:
            yield _line(name, *numbers)


def _line(name: str, *numbers: float) -> str:
    return f"{name:<30}" + "".join(f"{number:>10.3f}" for number in numbers)


def _bars(shares: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    """One character for each share; the smallest that is not nothing can be seen."""
    height = np.ceil(shares / shares.max() * (len(BARS) - 1)).astype(int)
    return "".join(BARS[level] for level in height)
