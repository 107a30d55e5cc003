"""Every way in which a dataset can be broken, each a sentence that names the file and the place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core import FcnetError
from fcnet_core.arrays import Mask
from fcnet_core.learning.dataset import Manifest, Shard, open_shard, read_manifest
from fcnet_core.observation import ARRAYS, LAYOUT
from fcnet_core.robot import JOINT_NAMES, Robot, load_robot
from fcnet_replay.datasets.summary import CHUNK, COMMAND_NAMES, array_entries

LIMIT_SLACK = 1e-4  # [rad] targets are stored as float32
UNIT = 0.02  # by which the length of a unit vector may differ from 1

Numbers = npt.NDArray[Any]


def faults(folder: Path, robot_name: str | None = None) -> Iterator[str]:
    """All that is wrong with a data folder, nothing if it is sound; robot_name: of which robot it should be."""
    try:
        manifest = read_manifest(folder)
    except (FcnetError, OSError) as error:
        yield str(error)
        return
    yield from _check_manifest(folder / "manifest.json", manifest, robot_name)
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
        yield from _check_contents(shard, manifest)
    yield from _check_amount(folder, manifest.description, len(shards), steps)


def _robot(manifest: Manifest) -> Robot | None:
    try:
        return load_robot(manifest.robot)
    except FcnetError:
        return None


def _check_manifest(path: Path, manifest: Manifest, wanted: str | None) -> Iterator[str]:
    if wanted and manifest.robot != wanted:
        yield f"{path} says that the robot is {manifest.robot!r}, not {wanted}: the data are another robot's"
    if not 0 < manifest.control_rate < float("inf"):
        yield f"{path} gives the control rate as {manifest.control_rate!r}; it must be a positive number [Hz]"
    if manifest.arrays == ARRAYS:  # a quadruped's
        if manifest.joint_names != JOINT_NAMES:
            yield f"{path} has the joints in another order than {', '.join(JOINT_NAMES)}; make the data again"
        if _robot(manifest) is None:
            yield f"{path} names the robot {manifest.robot!r}, of which there is no file in config/robots/"


def _check_amount(folder: Path, description: dict[str, Any], shards: int, steps: int) -> Iterator[str]:
    plan = description.get("plan")
    promised = description.get("shards", plan.get("shards") if isinstance(plan, dict) else None)
    if not shards:
        yield f"{folder} holds no shard; collect or copy the data again"
    elif promised is not None and promised != shards:
        yield f"{folder} holds {shards} shards, manifest.json promises {promised}; finish the collection, or copy again"
    elif description.get("steps", steps) != steps:
        yield f"{folder} holds {steps} steps, but manifest.json promises {description['steps']}; copy the data again"


def _check_contents(shard: Shard, manifest: Manifest) -> Iterator[str]:
    """The first fault of each kind in a shard, with how many more steps have it."""
    begins = shard.first[:, 0]
    if not begins.all():
        yield (
            f"{shard.path / 'first.npy'} does not begin sequence {int(np.argmin(begins))} with an episode's first step"
        )
    robot = _robot(manifest) if manifest.arrays == ARRAYS else None
    names = {name: array_entries(name, spec, manifest.arrays == ARRAYS) for name, spec in manifest.arrays.items()}
    length, flat = shard.first.shape[1], {name: shard.arrays[name].reshape(shard.steps, -1) for name in names}
    found: dict[tuple[str, str], tuple[str, int]] = {}
    for start in range(0, shard.steps, CHUNK):
        chunk = {name: array[start : start + CHUNK] for name, array in flat.items()}
        checks = [(name, "is not finite", ~np.isfinite(values), values) for name, values in chunk.items()]
        if manifest.arrays == ARRAYS:
            checks += _quadruped_checks(chunk["observation"], chunk["action"], robot)
        for name, kind, bad, values in checks:
            if bad.any():
                row, entry = np.argwhere(bad)[0].tolist()
                sequence, step = divmod(start + row, length)
                what = _entry(names[name], entry, bad.shape[1])
                first = f"sequence {sequence}, step {step}, {what} {kind}: {values[row, entry]:g}"
                sentence, count = found.get((name, kind), (first, 0))
                found[name, kind] = (sentence, count + int(bad.any(axis=1).sum()))
    for (name, _), (sentence, count) in found.items():
        yield f"{shard.path / name}.npy: {sentence}{f' ({count} steps in all)' if count > 1 else ''}"


def _quadruped_checks(
    observation: Numbers, action: Numbers, robot: Robot | None
) -> list[tuple[str, str, Mask, Numbers]]:
    """(array, what is wrong, where (N, entries), values (N, entries)) for what holds of a quadruped alone."""
    with np.errstate(invalid="ignore", over="ignore"):
        gravity = np.linalg.norm(observation[:, LAYOUT["projected_gravity"]], axis=1, keepdims=True)
        circle = np.hypot(observation[:, LAYOUT["sin_joint_position"]], observation[:, LAYOUT["cos_joint_position"]])
        command = observation[:, LAYOUT["command"]]
        phase, walk, unused = (
            np.hypot(command[:, 8:9], command[:, 9:10]),
            command[:, 10:11],
            command[:, len(COMMAND_NAMES) :],
        )
        odd_walk = np.isfinite(walk) & (walk != 0) & (walk != 1)
        odd_unused = np.isfinite(unused) & (unused != 0)
        checks = [
            ("observation", "is no direction, its length is not 1", np.abs(gravity - 1) > UNIT, gravity),
            ("observation", "is no sine and cosine of an angle, whose length is 1", np.abs(circle - 1) > UNIT, circle),
            ("observation", "is no gait phase, its length is not 1", np.abs(phase - 1) > UNIT, phase),
            ("observation", "is a walk flag that is neither 0 nor 1", odd_walk, walk),
            ("observation", "is an unused command that is not 0", odd_unused, unused),
        ]
        if robot:
            beyond = (action < robot.lower - LIMIT_SLACK) | (action > robot.upper + LIMIT_SLACK)
            checks.append(("action", f"lies beyond the joint limits of {robot.name} [rad]", beyond, action))
    return checks


def _entry(names: tuple[str, ...], entry: int, checked: int) -> str:
    """What a person calls an entry; a check of fewer entries than the array has is one of joints, or of a group."""
    if checked == len(names):
        return names[entry]
    return f"joint {JOINT_NAMES[entry]}" if checked == len(JOINT_NAMES) else "its group of entries"
