"""Recorded runs relabelled: what the expert would have sent in the situations that a robot got itself into.

As in collection with a student, the expert is asked in every control period, whatever is sent; here the recording is
what is sent. Between the recorded states nothing is simulated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.command import CommandShaper
from fcnet_core.dataset import DatasetError
from fcnet_core.datasets.from_bag import account, check_belongs
from fcnet_core.datasets.new_dataset import NewDataset, new_folder
from fcnet_core.datasets.recorded_walk import BagReading, RecordedWalk, read_walk
from fcnet_core.datasets.walking_steps import WalkingSteps
from fcnet_core.replay.recorded_run import OdometryRecord
from fcnet_core.robot import SETPOINT_FIELDS, Robot
from quadruped_sim.expert.trot import TrotExpert
from quadruped_sim.relabel_state import beyond_the_expert, recorded_states
from quadruped_sim.simulation import CONTROL_PERIOD, BodyState

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
FREQUENCY = SETPOINT_FIELDS.index("frequency")
PHASE_DIGITS = 6  # of a stride, which float32 keeps
SAME_PHASE = 1e-4  # of a stride
COMMAND_FREQUENCY = 11  # where a command vector has it, see fcnet_core/command.py


@dataclass(frozen=True)
class Advice:
    """target (K, 12) [rad]: the expert's; known (K,): steps on which it has advice; first (K,): steps at which it was
    asked without a past; by_odometry: share of the states whose velocity was recorded; left_out: reason -> steps.
    """

    target: Array
    known: Mask
    first: Mask
    by_odometry: float
    left_out: Counter[str]


def advise(steps: WalkingSteps, episodes: Sequence[slice], odometry: OdometryRecord, robot: Robot) -> Advice:
    """Ask the expert about every step of every episode, in order; it forgets the past at each start and after each
    step on which it has no advice.
    """
    states, by_odometry = recorded_states(steps, odometry, robot)
    reasons = beyond_the_expert(states, robot)
    chosen = np.zeros(len(steps), dtype=np.bool_)
    for part in episodes:
        chosen[part] = True
    left_out = Counter({reason: int((mask & chosen).sum()) for reason, mask in reasons.items()})
    able = chosen & ~np.logical_or.reduce(list(reasons.values()))
    first, target = np.zeros(len(steps), dtype=np.bool_), np.full((len(steps), 12), np.nan)
    for part in episodes:
        first[part] = able[part] & np.append(True, ~able[part][:-1])
    expert, shaper = TrotExpert(robot, 1), CommandShaper(robot.commands, robot.gait, CONTROL_PERIOD)
    for step in np.flatnonzero(able):
        if first[step]:
            expert.reset()
        _set_command(shaper, steps.command[step])
        target[step] = expert.act(_at(states, int(step)), shaper)[0]
    known = able & np.isfinite(target).all(axis=1)
    return Advice(target, known, first, float(by_odometry[able].mean()) if able.any() else 0.0, left_out)


def relabel(bags: Sequence[Path], folder: Path, reading: BagReading, tell: Callable[[str], None]) -> NewDataset:
    """Write a dataset of what the policies of these bags saw and what the expert would have sent; `tell` gets a
    sentence on each bag. Raises DatasetError and what fcnet_core.datasets.recorded_walk.read_walk raises.
    """
    if abs(reading.rate * CONTROL_PERIOD - 1.0) > 1e-6:
        raise DatasetError(
            f"the expert walks at {1 / CONTROL_PERIOD:g} Hz, so it cannot label a policy of {reading.rate:g} Hz"
        )
    with new_folder(folder) as partial:
        data: NewDataset | None = None
        told: list[dict[str, Any]] = []
        for walk in (read_walk(path, reading) for path in bags):
            data = data or NewDataset(partial, walk.robot.name, reading.rate)
            check_belongs(walk, told, bags[0], data.robot)
            advice = advise(walk.steps, walk.episodes, walk.run.odometry, walk.robot)
            walk.steps.left_out.update(advice.left_out)
            told.append(walk.provenance | _facts(walk, advice))
            for line in (*account(walk), _comparison(told[-1])):
                tell(line)
            _add(data, walk, advice)
        if data is None or not data.steps:
            raise DatasetError(f"{', '.join(map(str, bags))} hold no state to advise on; {folder} was not written")
        data.describe({"source": "relabel", "labels": "the trotting expert's targets", "bags": told})
    return data


def _at(states: BodyState, step: int) -> BodyState:
    return BodyState(**{name: values[step : step + 1] for name, values in vars(states).items()})


def _set_command(shaper: CommandShaper, command: Array) -> None:
    """Bring setpoint and gait clock to where they were when this command vector (16,) was made.

    The clock's own sum is kept where the recorded phase agrees with it: at 2.5 strides a second it meets the very
    instants at which feet lift and land, and there the last digit decides on which side it is.
    """
    shaper.setpoint = np.append(command[:FREQUENCY], command[COMMAND_FREQUENCY])[None]
    clock = shaper.clock
    told = np.round(np.arctan2(command[8], command[9]) / (2 * np.pi), PHASE_DIGITS) % 1.0
    summed = (clock.phase + clock.frequency(shaper.setpoint) * clock.period) % 1.0
    agrees = np.abs((summed - told + 0.5) % 1.0 - 0.5) < SAME_PHASE
    clock.phase = np.where(agrees, summed, told)
    clock.walking = np.array([command[10] > 0.5])


def _facts(walk: RecordedWalk, advice: Advice) -> dict[str, Any]:
    error = advice.target[advice.known] - walk.steps.target[advice.known]
    return {
        "relabelled": int(advice.known.sum()),
        "velocity_from_odometry": round(advice.by_odometry, 4),
        "rms_from_sent_rad": round(float(np.sqrt(np.square(error).mean())), 4) if error.size else None,
    }


def _comparison(facts: dict[str, Any]) -> str:
    odometry = facts["velocity_from_odometry"]
    source = "odom" if odometry == 1 else "the legs" if odometry == 0 else f"odom ({odometry:.0%}) and the legs"
    apart = (
        "" if facts["rms_from_sent_rad"] is None else f", {facts['rms_from_sent_rad']:.3f} rad (rms) from what was sent"
    )
    return f"  {facts['relabelled']:,} steps relabelled{apart}; velocity from {source}"


def _add(data: NewDataset, walk: RecordedWalk, advice: Advice) -> None:
    rows = np.flatnonzero(advice.known)
    if not len(rows):
        return
    first = advice.first | np.append(True, ~advice.known[:-1])
    job = {"bag": walk.path.name, "steps": len(rows), "time": [float(walk.steps.time[row]) for row in rows[[0, -1]]]}
    data.add(walk.steps.observation()[rows][None], advice.target[rows][None], first[rows][None], job)
