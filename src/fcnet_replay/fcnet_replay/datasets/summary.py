"""The contents of a dataset: the names of its entries, its figures, also as text, and its drift from the data that a
policy was trained on.
"""

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core import counted
from fcnet_core.arrays import Mask
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Dataset, Manifest, Shard, velocity_manifest
from fcnet_core.model_file import load_model
from fcnet_core.observation import PolicyInterface, velocity_interface
from fcnet_core.observation.interface import SETPOINT_TERMS
from fcnet_core.observation.terms import Clock, Command, Constant, JointPosition, JointVelocity, LastAction, Term
from fcnet_core.policies.normalisation import observation_scales
from fcnet_core.robot import Robot, load_robot

OBSERVATION = "observation"
BINS = 12  # of a command's range
AT_LIMIT = 1e-3  # [rad] a target this near to a limit is at it
SHIFT = 0.5  # standard deviations of the policy's data; a mean farther away has drifted
WIDER, NARROWER = 2.0, 0.5  # times the standard deviation of the policy's data
BARS = " ▁▂▃▄▅▆▇█"
MANY = 20  # drifted entries shown


def interface_of(manifest: Manifest) -> PolicyInterface | None:
    """Return the interface of a data set: velocity tracking if its arrays are those of it; None if it is unknown."""
    try:
        robot = load_robot(manifest.robot)
    except FcnetError:
        return None
    own = velocity_manifest(robot, manifest.control_rate)
    return velocity_interface(robot, manifest.control_rate) if own.arrays == manifest.arrays else None


def terms_of(interface: PolicyInterface) -> Iterator[tuple[slice, Term]]:
    """Yield the columns and the term of each block of the observation."""
    start = 0
    for _, term in interface.blocks(interface.inputs[OBSERVATION]):
        yield slice(start, start := start + interface.size(term)), term


def episode_starts(shard: Shard) -> Mask:
    """Return the starts of episodes (S, T); every sequence starts one."""
    first = shard.first.copy()
    first[:, 0] = True
    return first


def entry_names(manifest: Manifest, name: str, interface: PolicyInterface | None) -> tuple[str, ...]:
    """Return a name for each entry of an array: part.joint, part.setpoint, part.index, or the array's own name for a
    number.
    """
    spec = manifest.arrays[name]
    if not spec.shape:
        return (name,)
    if interface and name == OBSERVATION:
        return tuple(entry for columns, term in terms_of(interface) for entry in _names(interface, term, columns))
    if interface and name == "action":
        return tuple(f"action.{joint}" for joint in interface.joints or range(interface.values))
    parts = spec.parts or {name: prod(spec.shape)}
    return tuple(f"{part}.{entry}" for part, size in parts.items() for entry in range(size))


def _names(interface: PolicyInterface, term: Term, columns: slice) -> Iterator[str]:
    size = interface.size(term)
    entries: tuple[str | int, ...] = tuple("xyz") if size == term.SIZE == 3 else tuple(range(size))
    if isinstance(term, (JointPosition, JointVelocity, LastAction)) and size == len(interface.joints):
        entries = interface.joints
    elif isinstance(term, Command):
        entries = term.fields
    elif isinstance(term, Clock) and term.form == "gait":
        entries = ("phase_sine", "phase_cosine", "walk")
    elif isinstance(term, Constant):
        entries = tuple(f"constant_{index}" for index in range(columns.start, columns.stop))
    part = "command" if isinstance(term, SETPOINT_TERMS) else term.part
    yield from (f"{part}.{entry}" for entry in entries)


def summarise(data: Dataset, against: Path | None = None) -> dict[str, Any]:
    """Return the figures of `data`, fit for JSON.

    robot, control_rate [Hz], shards, sequences, episodes, steps, seconds; entries: mean, std, min and max by entry.
    Only of data with the interface of a known robot, else empty or 0: walking: share of steps with the walk flag;
    coverage: by setpoint field the shares (BINS,) of steps in the parts of its range; at_limit, any_at_limit: shares of
    steps with the target of a joint, or of any joint, at a limit. drift, if `against` is a model file: its name, the
    number of `compared` entries of the observation, and the drifted `entries`, farthest first, with the shift of the
    mean [standard deviations of the policy's data] and the ratio of the standard deviations.

    Raises FcnetError if `against` is of another robot, rate or observation.
    """
    manifest, interface = data.manifest, interface_of(data.manifest)
    entries: dict[str, dict[str, float]] = {}
    for name, spread in data.statistics.items():
        columns = {"mean": spread.mean, "std": spread.std, "min": spread.lowest, "max": spread.highest}
        for index, entry in enumerate(entry_names(manifest, name, interface)):
            entries[entry] = {figure: float(values.ravel()[index]) for figure, values in columns.items()}
    figures = {
        "robot": manifest.robot,
        "control_rate": manifest.control_rate,
        "shards": len(data.shards),
        "sequences": sum(len(shard.first) for shard in data.shards),
        "episodes": sum(int(episode_starts(shard).sum()) for shard in data.shards),
        "steps": data.steps,
        "seconds": data.steps / manifest.control_rate,
        "walking": entries.get("command.walk", {}).get("mean", 0.0),
        "entries": entries,
        "coverage": {},
        "at_limit": {},
        "any_at_limit": 0.0,
    }
    if interface:
        figures |= _use_of_ranges(data, interface, load_robot(manifest.robot))
    return figures | ({"drift": _drift(data, against)} if against else {})


def _use_of_ranges(data: Dataset, interface: PolicyInterface, robot: Robot) -> dict[str, Any]:
    """Return coverage, at_limit and any_at_limit."""
    rows = interface.rows(robot.joint_names)
    lower, upper, hits, steps_with_hits = robot.lower[rows], robot.upper[rows], np.zeros(len(rows)), 0
    columns = {
        field: columns.start + index
        for columns, term in terms_of(interface)
        for index, field in enumerate(term.fields if isinstance(term, Command) else ())
        if field in robot.commands
    }
    counts = {field: np.zeros(BINS) for field in columns}
    for shard in data.shards:
        seen, action = shard.files[OBSERVATION].map(), shard.action
        for field, column in columns.items():
            limits = robot.commands[field]
            place = (seen[..., column].ravel() - limits.lowest) / (limits.highest - limits.lowest) * BINS
            # Values beyond a range count in its outermost parts.
            counts[field] += np.bincount(np.clip(place, 0, BINS - 1).astype(int), minlength=BINS)
        hit = (action <= lower + AT_LIMIT) | (action >= upper - AT_LIMIT)
        hits += hit.sum(axis=(0, 1))
        steps_with_hits += int(hit.any(axis=-1).sum())
    return {
        "coverage": {field: (count / data.steps).tolist() for field, count in counts.items()},
        "at_limit": dict(zip(interface.joints, (hits / data.steps).tolist(), strict=True)),
        "any_at_limit": steps_with_hits / data.steps,
    }


def _drift(data: Dataset, against: Path) -> dict[str, Any]:
    """Return the drift of the observations from the normalisation of the policy `against`."""
    model, manifest = load_model(against), data.manifest
    own_task, task = (manifest.robot, manifest.control_rate), (model.card.interface.name, model.card.interface.rate)
    mean, std = model.scales["observation_mean"], model.scales["observation_std"]
    own = observation_scales(data.statistics, manifest.arrays, manifest.arrays)
    if task != own_task or mean.shape != own["observation_mean"].shape:
        tasks = f"of {task[0]} at {task[1]:g} Hz, the data are of {own_task[0]} at {own_task[1]:g} Hz"
        raise FcnetError(f"{against} is {tasks}; compare with a policy of the same robot, rate and observations")
    shift, ratio = (own["observation_mean"] - mean) / std, own["observation_std"] / std
    moved = np.flatnonzero((np.abs(shift) > SHIFT) | (ratio > WIDER) | (ratio < NARROWER))
    names = entry_names(manifest, OBSERVATION, interface_of(manifest))
    moved = moved[np.argsort(-np.abs(shift[moved]), kind="stable")]
    entries = [{"name": names[row], "shift": float(shift[row]), "ratio": float(ratio[row])} for row in moved]
    return {"against": str(against), "compared": len(mean), "entries": entries}


def summary_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures of `summarise` as text."""
    steps, *parts = (counted(summary[f"{noun}s"], noun) for noun in ("step", "episode", "sequence", "shard"))
    hours = f"{summary['seconds'] / 3600:.3g} h"
    yield f"{summary['robot']}, {summary['control_rate']:g} Hz: {steps} ({hours}) in {', '.join(parts)}"
    yield f"\n{'entry':<30}{'mean':>10}{'std':>10}{'min':>10}{'max':>10}"
    groups: dict[str, list[dict[str, float]]] = {}
    for name, entry in summary["entries"].items():
        part = name.partition(".")[0]
        joined = "joint" in part or "action" in part  # all joints are described together
        if "command.constant" not in name:
            groups.setdefault(part if joined else name, []).append(entry)
    for part, entries in groups.items():
        mean, std, low, high = (np.array([entry[name] for entry in entries]) for name in ("mean", "std", "min", "max"))
        together = np.sqrt(max((std**2 + mean**2).mean() - mean.mean() ** 2, 0.0))
        yield f"{part:<30}{mean.mean():>10.3f}{together:>10.3f}{low.min():>10.3f}{high.max():>10.3f}"
    if summary["coverage"]:
        yield f"\ncommands, share of steps over each one's range (walking: {summary['walking']:.0%})"
        ranges = load_robot(summary["robot"]).commands
        for field, shares in summary["coverage"].items():
            heights = np.ceil(np.array(shares) / max(shares) * (len(BARS) - 1))  # the smallest stays visible
            idle = summary["entries"][f"command.{field}"]
            shown = "".join(BARS[int(height)] for height in heights)
            bars = "always 0" if idle["min"] == idle["max"] == 0 else f"[{shown}]"
            yield f"{field:<12}{ranges[field].lowest:>7g} {bars:^14} {ranges[field].highest:<7g}"
        yield f"\ntargets at a joint limit: {summary['any_at_limit']:.2%} of the steps"
        for joint, share in sorted(summary["at_limit"].items(), key=lambda item: -item[1])[:3]:
            if share:
                yield f"  {joint:<20}{share:.2%}"
    if "drift" in summary:
        against, compared, drifted = (summary["drift"][name] for name in ("against", "compared", "entries"))
        if not drifted:
            yield f"\nno drift against {against}"
            return
        yield f"\ndrift against {against}: {len(drifted)} of {compared} entries"
        yield f"{'entry':<36}{'shift [std]':>12}{'std ratio':>12}"
        for entry in drifted[:MANY]:
            yield f"{entry['name']:<36}{entry['shift']:>+12.2f}{entry['ratio']:>12.2f}"
        if len(drifted) > MANY:
            yield f"and {len(drifted) - MANY} more; --json has all"
