"""Every way in which a dataset can be broken, each told in a sentence that names the file and the place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.command import COMMAND_SIZE
from fcnet_core.learning.dataset import DatasetError, Manifest, read_manifest
from fcnet_core.observation import ACTION_SIZE, LAYOUT, OBSERVATION_SIZE
from fcnet_core.robot import JOINT_NAMES, Robot, RobotFileError, load_robot
from fcnet_replay.datasets.summary import ACTION_NAMES, COMMAND_NAMES, OBSERVATION_NAMES

CHUNK = 16_384  # steps in memory at a time
LIMIT_SLACK = 1e-4  # [rad] targets are stored as float32
UNIT = 0.02  # by which the length of a unit vector may differ from 1
TYPES = {"observation": "float32", "action": "float32", "first": "bool"}
FILES = (*(f"{name}.npy" for name in TYPES), "job.json")
AXES = {"observation": OBSERVATION_SIZE, "action": ACTION_SIZE}
ArrayMap = dict[str, npt.NDArray[Any]]


def faults(folder: Path, robot_name: str | None = None) -> Iterator[str]:
    """All that is wrong with a data folder, nothing if it is sound; robot_name: of which robot it should be."""
    try:
        manifest = read_manifest(folder)
    except (DatasetError, OSError) as error:
        yield str(error)
        return
    robot, found = _check_manifest(folder / "manifest.json", manifest, robot_name)
    yield from found
    steps, shards = 0, sorted(path for path in folder.glob("shard-*"))
    for shard in shards:
        arrays, found = _open(shard)
        yield from found
        if arrays:
            steps += arrays["first"].size
            yield from _check_contents(shard, arrays, robot)
    yield from _check_promise(folder, manifest, len(shards), steps)


def _check_manifest(path: Path, manifest: Manifest, wanted: str | None) -> tuple[Robot | None, list[str]]:
    found = []
    if wanted and manifest.robot != wanted:
        found.append(f"{path} says that the robot is {manifest.robot!r}, not {wanted}: the data are another robot's")
    if manifest.joint_names != JOINT_NAMES:
        found.append(f"{path} has the joints in another order than {', '.join(JOINT_NAMES)}; make the data again")
    rate = manifest.control_rate
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < float("inf"):
        found.append(f"{path} gives the control rate as {rate!r}; it must be a positive number [Hz]")
    try:
        return load_robot(str(manifest.robot)), found
    except RobotFileError:
        return None, [*found, f"{path} names the robot {manifest.robot!r}, of which there is no file in config/robots/"]


def _check_promise(folder: Path, manifest: Manifest, shards: int, steps: int) -> Iterator[str]:
    description = manifest.description if isinstance(manifest.description, dict) else {}
    plan = description.get("plan")
    promised = description.get("shards", plan.get("shards") if isinstance(plan, dict) else None)
    if not shards:
        yield f"{folder} holds no shard; collect or copy the data again"
    elif promised is not None and promised != shards:
        yield f"{folder} holds {shards} shards, manifest.json promises {promised}; finish the collection, or copy again"
    elif description.get("steps", steps) != steps:
        yield f"{folder} holds {steps} steps, but manifest.json promises {description['steps']}; copy the data again"


def _open(shard: Path) -> tuple[ArrayMap, list[str]]:
    """The arrays of a shard, or none and what is wrong with its files."""
    if not shard.is_dir():
        return {}, [f"{shard} is a file where a shard's folder is due; delete it"]
    found = [
        f"{shard / name} is missing; copy or collect the shard again" for name in FILES if not (shard / name).is_file()
    ]
    arrays: ArrayMap = {}
    for name, kind in TYPES.items():
        if (shard / f"{name}.npy").is_file():
            array, fault = _open_array(shard / f"{name}.npy", kind)
            found += [fault] if fault else []
            if array is not None:
                arrays[name] = array
    found += _check_job(shard / "job.json")
    if len(arrays) == len(TYPES):
        found += _check_shapes(shard, arrays)
    return ({} if found else arrays), found


def _open_array(path: Path, kind: str) -> tuple[npt.NDArray[Any] | None, str]:
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                return None, f"{path} has .npy version {version}, not 1.0; write it again"
            shape, column_major, dtype = np.lib.format.read_array_header_1_0(file)
            begins = file.tell()
        due = begins + dtype.itemsize * int(np.prod(shape, dtype=object))
        if (size := path.stat().st_size) != due:
            return None, f"{path} has {size} bytes where its header promises {due}; copy or collect the shard again"
        if dtype != np.dtype(kind) or column_major:
            order = " in column order" if column_major else ""
            return None, f"{path} holds {dtype}{order}, expected {kind} in row order; write it again"
        return np.load(path, mmap_mode="r"), ""
    except (ValueError, OSError, EOFError, SyntaxError, TypeError, OverflowError, MemoryError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        return None, f"{path} is no readable .npy file ({reason}); copy or collect the shard again"


def _check_job(path: Path) -> list[str]:
    if not path.is_file():
        return []  # told as missing
    try:
        if isinstance(json.loads(path.read_text()), dict):
            return []
        reason = "it is no JSON object"
    except (ValueError, OSError, RecursionError) as error:
        reason = str(error)
    return [f"{path} is damaged ({reason}); copy or collect the shard again"]


def _check_shapes(shard: Path, arrays: ArrayMap) -> list[str]:
    steps = arrays["first"].shape
    if len(steps) != 2 or 0 in steps:
        return [f"{shard / 'first.npy'} has shape {steps}, expected (sequences, steps), neither of them 0"]
    return [
        f"{shard / f'{name}.npy'} has shape {arrays[name].shape}, expected {(*steps, entries)} as first.npy has {steps}"
        for name, entries in AXES.items()
        if arrays[name].shape != (*steps, entries)
    ]


def _check_contents(shard: Path, arrays: ArrayMap, robot: Robot | None) -> Iterator[str]:
    """The first fault of each kind in a shard, with how many more steps have it."""
    begins = arrays["first"][:, 0]
    if not begins.all():
        yield f"{shard / 'first.npy'} does not begin sequence {int(np.argmin(begins))} with an episode's first step"
    steps = arrays["first"].shape[1]
    flat = {name: arrays[name].reshape(-1, entries) for name, entries in AXES.items()}
    told: dict[tuple[str, str], tuple[str, int]] = {}
    for start in range(0, arrays["first"].size, CHUNK):
        chunk = {name: array[start : start + CHUNK] for name, array in flat.items()}
        for name, kind, bad, value in _bad_entries(chunk, robot):
            if bad.any():
                row, entry = (int(index) for index in np.argwhere(bad)[0])
                sequence, step = divmod(start + row, steps)
                place = f"sequence {sequence}, step {step}, {_entry(name, entry, bad.shape[1])}"
                sentence, count = told.get((name, kind), (f"{place} {kind}: {value[row, entry]:g}", 0))
                told[name, kind] = (sentence, count + int(bad.any(axis=1).sum()))
    for (name, _), (sentence, count) in told.items():
        more = f" ({count} steps in all)" if count > 1 else ""
        yield f"{shard / f'{name}.npy'}: {sentence}{more}"


def _bad_entries(
    chunk: ArrayMap, robot: Robot | None
) -> Iterator[tuple[str, str, npt.NDArray[np.bool_], npt.NDArray[Any]]]:
    """(array, what is wrong, where (N, entries), values (N, entries)) for every check."""
    with np.errstate(invalid="ignore", over="ignore"):
        for name, values in chunk.items():
            yield name, "is not finite", ~np.isfinite(values), values
        action, observation = chunk["action"], chunk["observation"]
        if robot:
            beyond = (action < robot.lower - LIMIT_SLACK) | (action > robot.upper + LIMIT_SLACK)
            yield "action", f"lies beyond the joint limits of {robot.name} [rad]", beyond, action
        gravity = np.linalg.norm(observation[:, LAYOUT["projected_gravity"]], axis=1)[:, None]
        yield "observation", "is no direction, its length is not 1", np.abs(gravity - 1) > UNIT, gravity
        sine, cosine = observation[:, LAYOUT["sin_joint_position"]], observation[:, LAYOUT["cos_joint_position"]]
        circle = np.hypot(sine, cosine)
        yield "observation", "is no sine and cosine of an angle, whose length is 1", np.abs(circle - 1) > UNIT, circle
        command = observation[:, LAYOUT["command"]]
        phase = np.hypot(command[:, 8:9], command[:, 9:10])
        yield "observation", "is no gait phase, its length is not 1", np.abs(phase - 1) > UNIT, phase
        walk = command[:, 10:11]
        yield (
            "observation",
            "is a walk flag that is neither 0 nor 1",
            np.isfinite(walk) & (walk != 0) & (walk != 1),
            walk,
        )
        unused = command[:, len(COMMAND_NAMES) : COMMAND_SIZE]
        yield "observation", "is an unused command that is not 0", np.isfinite(unused) & (unused != 0), unused


def _entry(name: str, entry: int, entries: int) -> str:
    """What a person calls an entry; checks of fewer entries than an array has speak of a group."""
    if name == "action":
        return ACTION_NAMES[entry]
    if entries == OBSERVATION_SIZE:
        return OBSERVATION_NAMES[entry]
    return f"joint {JOINT_NAMES[entry]}" if entries == ACTION_SIZE else "its group of entries"
