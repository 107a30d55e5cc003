"""What a dataset holds, in figures and as text, and how far it is from what a policy was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

import numpy as np
from msgspec import Struct

from fcnet_core import counted
from fcnet_core.arrays import Single
from fcnet_core.control.command import COMMAND_SIZE, setpoints_of
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Dataset, Manifest
from fcnet_core.model_file import PolicyCard, find_model, load_model
from fcnet_core.observation import ARRAYS, LAYOUT
from fcnet_core.policies.normalisation import observation_scales
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS, Robot, load_robot

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


class Entry(Struct, frozen=True):
    """The spread of one entry of an array over all steps."""

    mean: float
    std: float
    min: float
    max: float


class Drift(Struct, frozen=True):
    """Of one entry: shift of its mean in the other's standard deviations, ratio of the standard deviations, and
    whether some of its values lie beyond what the policy can see.
    """

    name: str
    shift: float
    ratio: float
    clipped: bool


class Comparison(Struct, frozen=True):
    """Which of the `compared` entries have drifted, the farthest first; against: the file or folder."""

    against: str
    compared: int
    entries: list[Drift]


class Summary(Struct, frozen=True, omit_defaults=True):
    """Rates in Hz, amounts, seconds of robot time, and the spread of every entry by name.

    Of a quadruped's data alone, else empty or 0: walking: share of steps with the walk flag; coverage: setpoint field
    -> share of steps (BINS,) in each part of its range; at_limit: share of steps with that joint's target at a limit;
    any_at_limit: with any joint's.
    """

    robot: str
    control_rate: float
    shards: int
    sequences: int
    episodes: int
    steps: int
    seconds: float
    walking: float
    entries: dict[str, Entry]
    coverage: dict[str, list[float]]
    at_limit: dict[str, float]
    any_at_limit: float
    drift: Comparison | None = None


def entry_names(manifest: Manifest, name: str) -> tuple[str, ...]:
    """A name for every entry of an array, for people: part.joint, part.index, or the array's own."""
    spec = manifest.arrays[name]
    if not spec.shape:
        return (name,)
    return tuple(
        f"{part}.{entry}"
        for part, size in (spec.parts or {name: prod(spec.shape)}).items()
        for entry in (QUADRUPED.get(part, JOINT_NAMES) if manifest.arrays == ARRAYS else range(size))
    )


def summarise(data: Dataset, against: Path | None = None) -> Summary:
    """Describe all of `data`; against: a policy's file or a data folder of the same robot, rate and arrays.

    Raises FcnetError when that cannot be compared with.
    """
    entries = {
        entry: Entry(*figures)
        for name, spread in data.statistics.items()
        for entry, *figures in zip(
            entry_names(data.manifest, name),
            *(values.ravel().tolist() for values in (spread.mean, spread.std, spread.lowest, spread.highest)),
            strict=True,
        )
    }
    robot = load_robot(data.manifest.robot) if data.manifest.arrays == ARRAYS else None
    coverage, at_limit, any_at_limit = _use_of_ranges(data, robot) if robot else ({}, {}, 0.0)
    return Summary(
        robot=data.manifest.robot,
        control_rate=data.manifest.control_rate,
        shards=len(data.shards),
        sequences=sum(len(shard.first) for shard in data.shards),
        episodes=sum(int(shard.first.sum() + (~shard.first[:, 0]).sum()) for shard in data.shards),
        steps=data.steps,
        seconds=data.steps / data.manifest.control_rate,
        walking=entries["command.walk"].mean if robot else 0.0,
        entries=entries,
        coverage=coverage,
        at_limit=at_limit,
        any_at_limit=any_at_limit,
        drift=_comparison(data, against) if against else None,
    )


def _use_of_ranges(data: Dataset, robot: Robot) -> tuple[dict[str, list[float]], dict[str, float], float]:
    """Summary.coverage, at_limit and any_at_limit of a quadruped's data."""
    ranges = [robot.commands[field] for field in SETPOINT_FIELDS]
    lowest, highest = np.array([[limits.lowest, limits.highest] for limits in ranges]).T
    counts, hits, steps_with_hits = np.zeros((len(ranges), BINS)), np.zeros(len(JOINT_NAMES)), 0
    for shard in data.shards:
        setpoint = setpoints_of(shard.observation[..., LAYOUT["command"]]).reshape(-1, len(ranges))
        place = (setpoint - lowest) / (highest - lowest) * BINS
        place = np.clip(place, 0, BINS - 1).astype(int)  # what lies beyond a range counts in its outermost parts
        counts += [np.bincount(column, minlength=BINS) for column in place.T]
        hit = (shard.action <= robot.lower + AT_LIMIT) | (shard.action >= robot.upper - AT_LIMIT)
        hits += hit.sum(axis=(0, 1))
        steps_with_hits += int(hit.any(axis=-1).sum())
    coverage = dict(zip(SETPOINT_FIELDS, (counts / data.steps).tolist(), strict=True))
    return coverage, dict(zip(JOINT_NAMES, (hits / data.steps).tolist(), strict=True)), steps_with_hits / data.steps


def _comparison(data: Dataset, against: Path) -> Comparison:
    """The drift of every entry of which the other has a mean and a standard deviation, as in training."""
    scales, clip = _reference(against, data.manifest)
    own, drifts, compared = observation_scales(data.statistics, data.manifest.arrays, data.manifest.arrays), [], 0
    for name, spread in data.statistics.items():
        if f"{name}_std" not in scales:  # a policy has no spread of actions
            continue
        mean, std = scales[f"{name}_mean"].ravel(), scales[f"{name}_std"].ravel()
        shift, ratio = (spread.mean.ravel() - mean) / std, own[f"{name}_std"].ravel() / std
        beyond = np.maximum(spread.highest.ravel() - mean, mean - spread.lowest.ravel()) / std > clip
        moved = (np.abs(shift) > SHIFT) | (ratio > WIDER) | (ratio < NARROWER)
        found = zip(entry_names(data.manifest, name), shift.tolist(), ratio.tolist(), beyond.tolist(), strict=True)
        drifts += [Drift(*entry) for entry, drifted in zip(found, moved | beyond, strict=True) if drifted]
        compared += len(mean)
    return Comparison(str(against), compared, sorted(drifts, key=lambda drift: -abs(drift.shift)))


def _reference(path: Path, manifest: Manifest) -> tuple[Mapping[str, Single], float]:
    """Normalisation.scales and clip [standard deviations] of a policy or of other data, which clip nothing."""
    found: PolicyCard | Manifest
    if find_model(path):
        model = load_model(path)
        found, scales, clip = model.card, model.scales, model.card.observation_clip
    else:
        data = Dataset(path)
        found, clip = data.manifest, np.inf
        scales = observation_scales(data.statistics, found.arrays, found.arrays)
    if (found.robot, found.control_rate) != (manifest.robot, manifest.control_rate):
        raise FcnetError(
            f"{path} is of {found.robot} at {found.control_rate:g} Hz, the data are of {manifest.robot} at "
            f"{manifest.control_rate:g} Hz; compare with one of the same robot and rate"
        )
    for name, spec in manifest.arrays.items():
        if f"{name}_std" in scales and scales[f"{name}_std"].shape != spec.shape:
            raise FcnetError(f"{path} has another {name} than the data; compare with one that has the same arrays")
    return scales, clip


def summary_lines(summary: Summary, every_entry: bool) -> Iterator[str]:
    """Sizes, spread, coverage and saturation as text; every_entry: a line for each entry, not for each part."""
    yield (
        f"{summary.robot}, {summary.control_rate:g} Hz: {counted(summary.steps, 'step')} "
        f"({summary.seconds / 3600:.3g} h) in {counted(summary.episodes, 'episode')}, "
        f"{counted(summary.sequences, 'sequence')}, {counted(summary.shards, 'shard')}"
    )
    yield f"\n{'entry':<30}{'mean':>10}{'std':>10}{'min':>10}{'max':>10}"
    parts: dict[str, list[Entry]] = {}
    for name, entry in summary.entries.items():
        part = name.partition(".")[0]
        joined = "joint" in part or "action" in part  # entries of all joints are taken together
        if "unused" not in name:
            parts.setdefault(part if joined and not every_entry else name, []).append(entry)
    for part, entries in parts.items():
        mean, std = (np.array([getattr(entry, name) for entry in entries]) for name in ("mean", "std"))
        together = np.sqrt(max((std**2 + mean**2).mean() - mean.mean() ** 2, 0.0))
        lowest, highest = min(entry.min for entry in entries), max(entry.max for entry in entries)
        yield f"{part:<30}{mean.mean():>10.3f}{together:>10.3f}{lowest:>10.3f}{highest:>10.3f}"
    if summary.coverage:
        yield from _range_lines(summary)
    if summary.drift:
        yield from _drift_lines(summary.drift)


def _range_lines(summary: Summary) -> Iterator[str]:
    yield f"\ncommands, share of steps over each one's range (walking: {summary.walking:.0%})"
    ranges = load_robot(summary.robot).commands
    for field, shares in summary.coverage.items():
        heights = np.ceil(np.array(shares) / max(shares) * (len(BARS) - 1)).astype(int)  # the smallest can be seen
        idle = summary.entries[f"command.{field}"]
        bars = "always 0" if idle.min == idle.max == 0 else f"[{''.join(BARS[height] for height in heights)}]"
        yield f"{field:<12}{ranges[field].lowest:>7g} {bars:^14} {ranges[field].highest:<7g}"
    yield f"\ntargets at a joint limit: {summary.any_at_limit:.2%} of the steps"
    for joint, share in sorted(summary.at_limit.items(), key=lambda item: -item[1])[:3]:
        if share:
            yield f"  {joint:<20}{share:.2%}"


def _drift_lines(drift: Comparison) -> Iterator[str]:
    if not drift.entries:
        yield f"\nno drift against {drift.against}"
        return
    yield f"\ndrift against {drift.against}: {len(drift.entries)} of {drift.compared} entries"
    yield f"{'entry':<36}{'shift [std]':>12}{'std ratio':>12}"
    for entry in drift.entries[:MANY]:
        beyond = "  has values that the policy sees clipped" if entry.clipped else ""
        yield f"{entry.name:<36}{entry.shift:>+12.2f}{entry.ratio:>12.2f}{beyond}"
    if len(drift.entries) > MANY:
        yield f"and {len(drift.entries) - MANY} more; --json has all"
