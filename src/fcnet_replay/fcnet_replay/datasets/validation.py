"""Checks a dataset for faults. Each fault is one sentence that names the file and the place."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core import counted
from fcnet_core.arrays import Mask
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Manifest, Shard, open_shard, read_manifest
from fcnet_core.observation import PolicyInterface
from fcnet_core.observation.terms import Clock, Constant, JointPosition, ProjectedGravity
from fcnet_core.robot import Robot, load_robot
from fcnet_replay.datasets.summary import OBSERVATION, entry_names, interface_of, terms_of

CHUNK = 16_384  # steps in memory at a time
LIMIT_SLACK = 1e-4  # [rad] targets are stored as float32
UNIT = 0.02  # by which the length of a unit vector may differ from 1

Numbers = npt.NDArray[Any]
Check = tuple[str, tuple[str, ...], str, Mask, Numbers]  # array, names (n,), what is wrong, where (N, n), values (N, n)


def faults(folder: Path) -> Iterator[str]:
    """Yield the faults of a dataset."""
    try:
        manifest = read_manifest(folder)
    except (FcnetError, OSError) as error:
        yield str(error)
        return
    path, robot = folder / "manifest.json", None
    if manifest.joint_names:  # otherwise of a task without a robot
        try:
            robot = load_robot(manifest.robot)
        except FcnetError:
            yield f"{path} names the robot {manifest.robot!r}, of which no file is in config/robots/ or FCNET_ROBOTS"
    if robot and manifest.joint_names != robot.joint_names:
        yield f"{path} has the joints in another order than {', '.join(robot.joint_names)}; make the data again"
    steps, shards = 0, sorted(folder.glob("shard-*"))
    for path in shards:
        if not path.is_dir():
            yield f"{path} is a file where a shard's folder is due; delete it"
            continue
        try:
            shard = open_shard(path, manifest.arrays)
        except FcnetError as error:
            yield str(error)
            continue
        steps += shard.steps
        yield from _check_contents(shard, manifest, robot)
    plan = manifest.description.get("plan")
    promised = manifest.description.get("shards", plan.get("shards") if isinstance(plan, dict) else None)
    promised_steps = manifest.description.get("steps", steps)
    if not shards:
        yield f"{folder} holds no shard; collect or copy the data again"
    elif promised not in (None, len(shards)):
        held = counted(len(shards), "shard")
        yield f"{folder} holds {held}, manifest.json promises {promised}; finish the collection, or copy again"
    elif promised_steps != steps:
        yield f"{folder} holds {counted(steps, 'step')}, but manifest.json promises {promised_steps}; copy again"


def _check_contents(shard: Shard, manifest: Manifest, robot: Robot | None) -> Iterator[str]:
    """Yield the first fault of each kind in a shard, with the number of steps that have it."""
    begins = shard.first[:, 0]
    if not begins.all():
        wrong = f"does not begin sequence {int(np.argmin(begins))} with an episode's first step"
        yield f"{shard.path / 'first.npy'} {wrong}"
    interface = interface_of(manifest)
    names = {name: entry_names(manifest, name, interface) for name in manifest.arrays}
    flat = {name: shard.arrays[name].reshape(shard.steps, -1) for name in names}
    found: dict[tuple[str, tuple[str, ...], str], tuple[str, int]] = {}
    for start in range(0, shard.steps, CHUNK):
        chunk = {name: array[start : start + CHUNK] for name, array in flat.items()}
        checks = [(name, names[name], "is not finite", ~np.isfinite(part), part) for name, part in chunk.items()]
        if interface:
            checks += _term_checks(chunk[OBSERVATION], interface)
        if interface and robot:
            rows, action = interface.rows(robot.joint_names), chunk["action"]
            beyond = (action < robot.lower[rows] - LIMIT_SLACK) | (action > robot.upper[rows] + LIMIT_SLACK)
            kind = f"lies beyond the joint limits of {robot.name} [rad]"
            checks.append(("action", names["action"], kind, beyond, action))
        for name, entries, kind, bad, values in checks:
            if bad.any():
                row, entry = np.argwhere(bad)[0].tolist()
                sequence, step = divmod(start + row, shard.first.shape[1])
                first = f"sequence {sequence}, step {step}, {entries[entry]} {kind}: {values[row, entry]:g}"
                sentence, count = found.get((name, entries, kind), (first, 0))
                found[name, entries, kind] = (sentence, count + int(bad.any(axis=1).sum()))
    for (name, *_), (sentence, count) in found.items():
        yield f"{shard.path / name}.npy: {sentence}{f' ({count} steps in all)' if count > 1 else ''}"


def _term_checks(seen: Numbers, interface: PolicyInterface) -> Iterator[Check]:
    """Yield the checks of observations (N, n). NaN, which is a fault already, passes them."""
    angles: dict[str, Numbers] = {}
    scales = interface.scales(OBSERVATION)
    with np.errstate(invalid="ignore", over="ignore"):
        for columns, term in terms_of(interface):
            values = seen[:, columns] / scales[columns]
            if isinstance(term, ProjectedGravity):
                yield _unit(("gravity",), np.linalg.norm(values, axis=1, keepdims=True))
            elif isinstance(term, JointPosition):
                angles[term.form] = values
            elif isinstance(term, Clock) and term.form == "gait":
                yield _unit(("gait phase",), np.hypot(values[:, :1], values[:, 1:2]))
                walk = values[:, 2:]
                odd = np.isfinite(walk) & (walk != 0) & (walk != 1)
                yield OBSERVATION, ("walk flag",), "is neither 0 nor 1", odd, walk
            elif isinstance(term, Constant):
                odd = np.isfinite(values) & (values != term.value)
                yield OBSERVATION, ("constant",) * term.size, f"is not {term.value:g}", odd, values
        if {"sin", "cos"} <= angles.keys():
            yield _unit(interface.joints, np.hypot(angles["sin"], angles["cos"]))


def _unit(names: tuple[str, ...], length: Numbers) -> Check:
    return OBSERVATION, names, "is no unit vector, its length is", np.abs(length - 1) > UNIT, length
