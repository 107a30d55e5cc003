"""The contents of a dataset in figures and as text, and its drift from the data that a policy was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core import counted
from fcnet_core.control.command import COMMAND_SIZE, setpoints_of
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Dataset, Manifest
from fcnet_core.model_file import load_model
from fcnet_core.observation import ARRAYS, LAYOUT
from fcnet_core.policies.normalisation import observation_scales
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS, Robot, load_robot

BINS = 12  # of a command's range
AT_LIMIT = 1e-3  # [rad] a target this near to a limit is at it
SHIFT = 0.5  # standard deviations of the policy's data; a mean farther away has drifted
WIDER, NARROWER = 2.0, 0.5  # times the standard deviation of the policy's data
BARS = " ▁▂▃▄▅▆▇█"
MANY = 20  # drifted entries shown

COMMAND_NAMES = (*SETPOINT_FIELDS[:8], "phase_sine", "phase_cosine", "walk", SETPOINT_FIELDS[8])
# Names of the entries of a quadruped's arrays; all other parts have an entry for each joint.
QUADRUPED = {
    "projected_gravity": tuple("xyz"),
    "angular_velocity": tuple("xyz"),
    "command": (*COMMAND_NAMES, *(f"unused_{index}" for index in range(len(COMMAND_NAMES), COMMAND_SIZE))),
}


def entry_names(manifest: Manifest, name: str) -> tuple[str, ...]:
    """Return a name for each entry of an array: part.joint, part.index, or the array's own name for a number."""
    spec = manifest.arrays[name]
    if not spec.shape:
        return (name,)
    return tuple(
        f"{part}.{entry}"
        for part, size in (spec.parts or {name: prod(spec.shape)}).items()
        for entry in (QUADRUPED.get(part, JOINT_NAMES) if manifest.arrays == ARRAYS else range(size))
    )


def summarise(data: Dataset, against: Path | None = None) -> dict[str, Any]:
    """Return the figures of `data`, fit for JSON.

    robot, control_rate [Hz], shards, sequences, episodes, steps, seconds; entries: mean, std, min and max by entry.
    Only of a quadruped's data, else empty or 0: walking: share of steps with the walk flag; coverage: by setpoint field
    the shares (BINS,) of steps in the parts of its range; at_limit, any_at_limit: shares of steps with the target of a
    joint, or of any joint, at a limit. drift, if `against` is a model file: its name, the number of `compared` entries
    of the observation, and the drifted `entries`, farthest first, with the shift of the mean [standard deviations of
    the policy's data] and the ratio of the standard deviations.

    Raises FcnetError if `against` is of another robot, rate or observation.
    """
    manifest = data.manifest
    entries = {
        entry: dict(zip(("mean", "std", "min", "max"), figures, strict=True))
        for name, spread in data.statistics.items()
        for entry, *figures in zip(
            entry_names(manifest, name),
            *(values.ravel().tolist() for values in (spread.mean, spread.std, spread.lowest, spread.highest)),
            strict=True,
        )
    }
    quadruped = manifest.arrays == ARRAYS
    use = _use_of_ranges(data, load_robot(manifest.robot)) if quadruped else ({}, {}, 0.0)
    figures = {
        "robot": manifest.robot,
        "control_rate": manifest.control_rate,
        "shards": len(data.shards),
        "sequences": sum(len(shard.first) for shard in data.shards),
        "episodes": sum(int(shard.first.sum() + (~shard.first[:, 0]).sum()) for shard in data.shards),
        "steps": data.steps,
        "seconds": data.steps / manifest.control_rate,
        "walking": entries["command.walk"]["mean"] if quadruped else 0.0,
        "entries": entries,
        **dict(zip(("coverage", "at_limit", "any_at_limit"), use, strict=True)),
    }
    return figures | ({"drift": _drift(data, against)} if against else {})


def _use_of_ranges(data: Dataset, robot: Robot) -> tuple[dict[str, list[float]], dict[str, float], float]:
    """Return coverage, at_limit and any_at_limit of a quadruped's data."""
    ranges = [robot.commands[field] for field in SETPOINT_FIELDS]
    lowest, highest = np.array([[limits.lowest, limits.highest] for limits in ranges]).T
    counts, hits, steps_with_hits = np.zeros((len(ranges), BINS)), np.zeros(len(JOINT_NAMES)), 0
    for shard in data.shards:
        setpoint = setpoints_of(shard.observation[..., LAYOUT["command"]]).reshape(-1, len(ranges))
        place = (setpoint - lowest) / (highest - lowest) * BINS
        place = np.clip(place, 0, BINS - 1).astype(int)  # values beyond a range count in its outermost parts
        counts += [np.bincount(column, minlength=BINS) for column in place.T]
        hit = (shard.action <= robot.lower + AT_LIMIT) | (shard.action >= robot.upper - AT_LIMIT)
        hits += hit.sum(axis=(0, 1))
        steps_with_hits += int(hit.any(axis=-1).sum())
    coverage = dict(zip(SETPOINT_FIELDS, (counts / data.steps).tolist(), strict=True))
    return coverage, dict(zip(JOINT_NAMES, (hits / data.steps).tolist(), strict=True)), steps_with_hits / data.steps


def _drift(data: Dataset, against: Path) -> dict[str, Any]:
    """Return the drift of the observations from the normalisation of the policy `against`."""
    model, manifest = load_model(against), data.manifest
    card = model.card
    mean, std = model.scales["observation_mean"], model.scales["observation_std"]
    own = observation_scales(data.statistics, manifest.arrays, manifest.arrays)
    same_task = (card.interface.name, card.interface.rate) == (manifest.robot, manifest.control_rate)
    if not same_task or mean.shape != own["observation_mean"].shape:
        raise FcnetError(
            f"{against} is of {card.interface.name} at {card.interface.rate:g} Hz, the data are of {manifest.robot} at "
            f"{manifest.control_rate:g} Hz; compare with a policy of the same robot, rate and observations"
        )
    shift, ratio = (own["observation_mean"] - mean) / std, own["observation_std"] / std
    moved = np.flatnonzero((np.abs(shift) > SHIFT) | (ratio > WIDER) | (ratio < NARROWER))
    names = entry_names(manifest, "observation")
    entries = [{"name": names[row], "shift": float(shift[row]), "ratio": float(ratio[row])} for row in moved]
    return {
        "against": str(against),
        "compared": len(mean),
        "entries": sorted(entries, key=lambda entry: -abs(entry["shift"])),
    }


def summary_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures of `summarise` as text."""
    yield (
        f"{summary['robot']}, {summary['control_rate']:g} Hz: {counted(summary['steps'], 'step')} "
        f"({summary['seconds'] / 3600:.3g} h) in {counted(summary['episodes'], 'episode')}, "
        f"{counted(summary['sequences'], 'sequence')}, {counted(summary['shards'], 'shard')}"
    )
    yield f"\n{'entry':<30}{'mean':>10}{'std':>10}{'min':>10}{'max':>10}"
    parts: dict[str, list[dict[str, float]]] = {}
    for name, entry in summary["entries"].items():
        part = name.partition(".")[0]
        joined = "joint" in part or "action" in part  # all joints are described together
        if "unused" not in name:
            parts.setdefault(part if joined else name, []).append(entry)
    for part, entries in parts.items():
        mean, std, low, high = (np.array([entry[name] for entry in entries]) for name in ("mean", "std", "min", "max"))
        together = np.sqrt(max((std**2 + mean**2).mean() - mean.mean() ** 2, 0.0))
        yield f"{part:<30}{mean.mean():>10.3f}{together:>10.3f}{low.min():>10.3f}{high.max():>10.3f}"
    if summary["coverage"]:
        yield from _range_lines(summary)
    if "drift" in summary:
        yield from _drift_lines(summary["drift"])


def _range_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    yield f"\ncommands, share of steps over each one's range (walking: {summary['walking']:.0%})"
    ranges = load_robot(summary["robot"]).commands
    for field, shares in summary["coverage"].items():
        heights = np.ceil(np.array(shares) / max(shares) * (len(BARS) - 1)).astype(int)  # the smallest stays visible
        idle = summary["entries"][f"command.{field}"]
        bars = "always 0" if idle["min"] == idle["max"] == 0 else f"[{''.join(BARS[height] for height in heights)}]"
        yield f"{field:<12}{ranges[field].lowest:>7g} {bars:^14} {ranges[field].highest:<7g}"
    yield f"\ntargets at a joint limit: {summary['any_at_limit']:.2%} of the steps"
    for joint, share in sorted(summary["at_limit"].items(), key=lambda item: -item[1])[:3]:
        if share:
            yield f"  {joint:<20}{share:.2%}"


def _drift_lines(drift: Mapping[str, Any]) -> Iterator[str]:
    against, entries = drift["against"], drift["entries"]
    if not entries:
        yield f"\nno drift against {against}"
        return
    yield f"\ndrift against {against}: {len(entries)} of {drift['compared']} entries"
    yield f"{'entry':<36}{'shift [std]':>12}{'std ratio':>12}"
    for entry in entries[:MANY]:
        yield f"{entry['name']:<36}{entry['shift']:>+12.2f}{entry['ratio']:>12.2f}"
    if len(entries) > MANY:
        yield f"and {len(entries) - MANY} more; --json has all"
