"""What a dataset holds, in figures and as text, and how far it is from what a policy was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core import FcnetError
from fcnet_core.arrays import Array, Mask
from fcnet_core.command import COMMAND_SIZE
from fcnet_core.learning.dataset import Dataset, Manifest
from fcnet_core.model_file import load_model
from fcnet_core.observation import ARRAYS
from fcnet_core.policies.normalisation import COMMAND_STD_FLOOR, STD_FLOOR
from fcnet_core.policies.registry import ArraySpec
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS, Robot

CHUNK = 16_384  # steps in memory at a time
BINS = 12  # of a command's range
AT_LIMIT = 1e-3  # [rad] a target this near to a limit is at it
SHIFT = 0.5  # of the other's standard deviations; a mean farther away has drifted
WIDER, NARROWER = 2.0, 0.5  # times the other's standard deviation
BARS = " ▁▂▃▄▅▆▇█"
MANY = 20  # drifted entries shown

COMMAND_NAMES = (*SETPOINT_FIELDS[:8], "phase_sine", "phase_cosine", "walk", SETPOINT_FIELDS[8])
QUADRUPED = {  # names of the entries of those parts that are not of the 12 joints
    "projected_gravity": tuple("xyz"),
    "angular_velocity": tuple("xyz"),
    "command": (*COMMAND_NAMES, *(f"unused_{index}" for index in range(len(COMMAND_NAMES), COMMAND_SIZE))),
}


def array_entries(name: str, spec: ArraySpec, quadruped: bool) -> tuple[str, ...]:
    """A name for every entry of an array, for people: part.joint, part.index, or the array's own."""
    if not spec.shape:
        return (name,)
    return tuple(
        f"{part}.{entry}"
        for part, size in (spec.parts or {name: prod(spec.shape)}).items()
        for entry in (QUADRUPED.get(part, JOINT_NAMES) if quadruped else range(size))
    )


def summarised_arrays(manifest: Manifest) -> dict[str, tuple[str, ...]]:
    """The arrays of numbers, images excepted, with the names of their entries."""
    return {
        name: array_entries(name, spec, manifest.arrays == ARRAYS)
        for name, spec in manifest.arrays.items()
        if spec.dtype == "float32"
    }


@dataclass(frozen=True)
class Summary:
    """shards, sequences, episodes, steps: how many; seconds: of robot time. names (N,): of all entries; mean, std,
    lowest, highest (N,): of each.

    Of a quadruped's data alone, else empty: coverage: setpoint field -> share of steps (BINS,) in each part of its
    range; idle: fields that are always zero; walking: share of steps with the walk flag; at_limit (12,): share of steps
    with that joint's target at a limit; any_at_limit: with any joint's.
    """

    shards: int
    sequences: int
    episodes: int
    steps: int
    seconds: float
    names: tuple[str, ...]
    mean: Array
    std: Array
    lowest: Array
    highest: Array
    coverage: dict[str, Array]
    idle: tuple[str, ...]
    walking: float
    at_limit: Array
    any_at_limit: float

    @property
    def is_command(self) -> Mask:
        """Which entries (N,) are commands, which training does not blow up as much as others."""
        return np.array([name.startswith("command.") for name in self.names])


def summarise(data: Dataset, robot: Robot | None) -> Summary:
    """Read all of `data` once, CHUNK steps at a time; robot: None for data that are not a quadruped's."""
    names = sum(summarised_arrays(data.manifest).values(), ())
    count, total, square = 0, np.zeros(len(names)), np.zeros(len(names))
    lowest, highest = np.full(len(names), np.inf), np.full(len(names), -np.inf)
    fields = {field: names.index(f"command.{field}") for field in SETPOINT_FIELDS} if robot else {}
    histogram = {field: np.zeros(BINS) for field in fields}
    at_limit, any_at_limit = np.zeros(len(JOINT_NAMES) if robot else 0), 0
    for rows in chunks(data):
        count, total, square = count + len(rows), total + rows.sum(0), square + np.square(rows).sum(0)
        lowest, highest = np.minimum(lowest, rows.min(0)), np.maximum(highest, rows.max(0))
        if robot:
            for field, entry in fields.items():  # what lies beyond a range counts in its outermost parts
                limits = robot.commands[field]
                place = (rows[:, entry] - limits.lowest) / (limits.highest - limits.lowest) * BINS
                histogram[field] += np.bincount(np.clip(place, 0, BINS - 1).astype(int), minlength=BINS)
            action = rows[:, -len(JOINT_NAMES) :]
            hits = (action <= robot.lower + AT_LIMIT) | (action >= robot.upper - AT_LIMIT)
            at_limit, any_at_limit = at_limit + hits.sum(0), any_at_limit + int(hits.any(axis=1).sum())
    mean = total / count
    return Summary(
        shards=len(data.shards),
        sequences=sum(len(shard.first) for shard in data.shards),
        episodes=sum(int(shard.first.sum() + (~shard.first[:, 0]).sum()) for shard in data.shards),
        steps=count,
        seconds=count / data.manifest.control_rate,
        names=names,
        mean=mean,
        std=np.sqrt(np.maximum(square / count - mean**2, 0.0)),
        lowest=lowest,
        highest=highest,
        coverage={field: counts / count for field, counts in histogram.items()},
        idle=tuple(field for field, entry in fields.items() if lowest[entry] == highest[entry] == 0.0),
        walking=float(mean[names.index("command.walk")]) if robot else 0.0,
        at_limit=at_limit / count,
        any_at_limit=any_at_limit / count,
    )


def chunks(data: Dataset) -> Iterator[Array]:
    """All steps, as rows (N, entries) of the arrays that are summarised, one after the other."""
    wanted = summarised_arrays(data.manifest)
    for shard in data.shards:
        arrays = [shard.arrays[name].reshape(shard.steps, -1) for name in wanted]
        for start in range(0, shard.steps, CHUNK):
            yield np.hstack([array[start : start + CHUNK] for array in arrays]).astype(np.float64)


@dataclass(frozen=True)
class Reference:
    """What is compared with: mean and std (N,) of every entry in the units of training, NaN where unknown; clip: beyond
    how many standard deviations a policy sees nothing, infinite for data.
    """

    name: str
    mean: Array
    std: Array
    clip: float = np.inf


@dataclass(frozen=True)
class Drift:
    """Of one entry: shift of its mean in the other's standard deviations, ratio of the standard deviations, and
    whether some of its values lie beyond what the policy can see.
    """

    name: str
    shift: float
    ratio: float
    clipped: bool


def reference(path: Path, summary: Summary, manifest: Manifest, robot: Robot | None) -> Reference:
    """A policy's file or a data folder of the same robot, rate and arrays to compare data with.

    Raises FcnetError when there is none, or when it is of another robot or rate.
    """
    if path.suffix == ".safetensors":
        model = load_model(path)
        _check_same(path, model.card.robot, model.card.control_rate, manifest)
        mean, std = [], []
        for name, entries in summarised_arrays(manifest).items():
            unknown = np.full(len(entries), np.nan, dtype=np.float32)  # of actions, a policy has no spread
            seen = f"{name}_std" in model.scales
            mean.append(model.scales[f"{name}_mean"].ravel() if seen else unknown)
            std.append(model.scales[f"{name}_std"].ravel() if seen else unknown)
        means, stds = (np.concatenate(parts).astype(np.float64) for parts in (mean, std))
        if means.shape != summary.mean.shape:
            raise FcnetError(f"{path} sees other arrays than the data have; compare with a policy of the same ones")
        return Reference(str(path), means, stds, model.card.observation_clip)
    data = Dataset(path)
    _check_same(path, data.manifest.robot, data.manifest.control_rate, manifest)
    if data.manifest.arrays != manifest.arrays:
        raise FcnetError(f"{path} has other arrays than the data; compare with data of the same ones")
    other = summarise(data, robot)
    floor = np.where(other.is_command, COMMAND_STD_FLOOR, 0.0)  # as in training
    return Reference(str(path), other.mean, np.maximum(other.std + STD_FLOOR, floor))


def _check_same(path: Path, robot: str, rate: float, manifest: Manifest) -> None:
    if (robot, rate) != (manifest.robot, manifest.control_rate):
        raise FcnetError(
            f"{path} is of {robot} at {rate:g} Hz, the data are of {manifest.robot} at {manifest.control_rate:g} Hz; "
            "compare with one of the same robot and rate"
        )


def drifted(summary: Summary, other: Reference) -> list[Drift]:
    """The entries that have drifted, the farthest first."""
    shift = (summary.mean - other.mean) / other.std
    ratio = (summary.std + np.where(summary.is_command, 0.0, STD_FLOOR)) / other.std
    clipped = np.maximum(summary.highest - other.mean, other.mean - summary.lowest) / other.std > other.clip
    used = other.std > 1.01 * np.where(summary.is_command, COMMAND_STD_FLOOR, STD_FLOOR)  # others cannot be narrower
    moved = (np.abs(shift) > SHIFT) | (ratio > WIDER) | ((ratio < NARROWER) & used)
    return [
        Drift(summary.names[entry], float(shift[entry]), float(ratio[entry]), bool(clipped[entry]))
        for entry in np.argsort(-np.abs(shift))
        if moved[entry] or clipped[entry]
    ]


def summary_lines(manifest: Manifest, summary: Summary, robot: Robot | None, every_entry: bool) -> Iterator[str]:
    """Sizes, spread, coverage and saturation as text; every_entry: a line for each entry, not for each part."""
    yield (
        f"{manifest.robot}, {manifest.control_rate:g} Hz: {summary.steps:,} steps ({summary.seconds / 3600:.3g} h) in "
        f"{summary.episodes:,} episodes, {summary.sequences:,} sequences, {summary.shards:,} shards"
    )
    yield f"\n{'entry':<30}{'mean':>10}{'std':>10}{'min':>10}{'max':>10}"
    parts: dict[str, list[int]] = {}
    for entry, name in enumerate(summary.names):
        part = name.partition(".")[0]
        joined = "joint" in part or "action" in part  # entries of all joints are taken together
        if "unused" not in name:
            parts.setdefault(part if joined and not every_entry else name, []).append(entry)
    for part, entries in parts.items():
        mean = summary.mean[entries].mean()
        std = np.sqrt(np.maximum((summary.std[entries] ** 2 + summary.mean[entries] ** 2).mean() - mean**2, 0.0))
        figures = (mean, std, summary.lowest[entries].min(), summary.highest[entries].max())
        yield f"{part:<30}" + "".join(f"{figure:>10.3f}" for figure in figures)
    if robot is None:
        return
    yield f"\ncommands, share of steps over each one's range (walking: {summary.walking:.0%})"
    for field, shares in summary.coverage.items():
        limits = robot.commands[field]
        heights = np.ceil(shares / shares.max() * (len(BARS) - 1)).astype(int)  # the smallest share can be seen
        bars = "always 0" if field in summary.idle else f"[{''.join(BARS[height] for height in heights)}]"
        yield f"{field:<12}{limits.lowest:>7g} {bars:^14} {limits.highest:<7g}"
    yield f"\ntargets at a joint limit: {summary.any_at_limit:.2%} of the steps"
    for joint in np.argsort(-summary.at_limit)[:3]:
        if summary.at_limit[joint]:
            yield f"  {JOINT_NAMES[joint]:<20}{summary.at_limit[joint]:.2%}"


def drift_lines(other: Reference, drift: Sequence[Drift]) -> Iterator[str]:
    """Which entries are not as in the other, and how."""
    if not drift:
        yield f"\nno drift against {other.name}"
        return
    yield f"\ndrift against {other.name}: {len(drift)} of {np.isfinite(other.mean).sum()} entries"
    yield f"{'entry':<36}{'shift [std]':>12}{'std ratio':>12}"
    for entry in drift[:MANY]:
        beyond = "  has values that the policy sees clipped" if entry.clipped else ""
        yield f"{entry.name:<36}{entry.shift:>+12.2f}{entry.ratio:>12.2f}{beyond}"
    if len(drift) > MANY:
        yield f"and {len(drift) - MANY} more; --json has all"


def summary_figures(
    manifest: Manifest, summary: Summary, other: Reference | None, drift: Sequence[Drift]
) -> dict[str, Any]:
    """Everything as numbers and texts, fit for JSON."""
    columns = zip(summary.mean, summary.std, summary.lowest, summary.highest, strict=True)
    figures: dict[str, Any] = {
        "robot": manifest.robot,
        "control_rate": manifest.control_rate,
        **{name: getattr(summary, name) for name in ("shards", "sequences", "episodes", "steps", "seconds", "walking")},
        "entries": {
            name: dict(zip(("mean", "std", "min", "max"), map(float, column), strict=True))
            for name, column in zip(summary.names, columns, strict=True)
        },
        "coverage": {field: shares.tolist() for field, shares in summary.coverage.items()},
        "at_limit": dict(zip(JOINT_NAMES, summary.at_limit.tolist(), strict=False)),
        "any_at_limit": summary.any_at_limit,
    }
    if other is not None:
        figures["drift"] = {"against": other.name, "entries": [vars(entry) for entry in drift]}
    return figures
