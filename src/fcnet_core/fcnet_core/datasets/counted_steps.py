"""The steps of a policy in a bag that does not tell them: counted from the target with which walking began.

A controller moves its gait clock on once for every step, so the phase follows from the number of targets, however
irregularly they came; from their times it would not.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from fcnet_core.command import CommandShaper
from fcnet_core.replay.aligned_steps import newest, setpoints
from fcnet_core.replay.recorded_run import RecordedRun, StepRecord
from fcnet_core.robot import Robot

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
SLIP = 2.5  # periods by which targets may be fewer than time allows: as much as the gait's phase may be wrong
STALE = 0.1  # [s] an older state is none: the controller would not have walked on it
UNKNOWN_BEGINNING = "the bag does not hold the beginning of that walk, so the gait's phase is unknown"
UNKNOWN_PHASE = "targets are missing, so the gait's phase is unknown until the next walk"
NO_STATE = "there is no state from shortly before"


def counted_steps(run: RecordedRun, robot: Robot, rate: float, left_out: Counter[str]) -> StepRecord:
    """Steps of every walk whose beginning the modes tell: of the targets every n-th, where they came n times as often
    as a policy of `rate` [Hz] steps. What was left out is added to `left_out`, reason -> number of steps.
    """
    walks = [_walk(run, robot, rate, begin, end, left_out) for begin, end in _walking_rows(run, left_out)]
    nothing = StepRecord(*(np.empty(0),) * 4, np.empty(0, dtype=np.bool_), np.empty((0, run.steps.command.shape[1])))
    return StepRecord(
        **{name: np.concatenate([vars(part)[name] for part in [nothing, *walks]]) for name in vars(nothing)}
    )


def _walking_rows(run: RecordedRun, left_out: Counter[str]) -> list[tuple[int, int]]:
    """First row and the row after the last of each walk's targets. A mode is told just after its first target."""
    told = np.append(run.mode.received, np.inf)
    rows = np.maximum(np.searchsorted(run.targets.received, told, side="right") - 1, 0)
    rows[-1] = len(run.targets.received)
    walks = [(int(rows[i]), int(rows[i + 1])) for i, mode in enumerate(run.mode.modes) if mode == "walking"]
    if walks and run.mode.modes[0] == "walking":  # a latched message: nobody knows for how long it had been so
        begin, end = walks.pop(0)
        left_out[UNKNOWN_BEGINNING] += end - begin
    return [(begin, end) for begin, end in walks if end - begin > 1]


def _walk(run: RecordedRun, robot: Robot, rate: float, begin: int, end: int, left_out: Counter[str]) -> StepRecord:
    every = max(round(1.0 / (rate * float(np.median(np.diff(run.targets.received[begin:end]))) or 1.0)), 1)
    rows = np.arange(begin, end, every)
    received = run.targets.received[rows]
    slip = np.abs((received - received[0]) * rate - np.arange(len(rows)))
    command = _commands(robot, rate, setpoints(run, received))
    time = run.targets.stamp[rows]
    joints, imu = newest(run.joints.stamp, time), newest(run.imu.stamp, time)
    fresh = (joints >= 0) & (imu >= 0)
    fresh &= np.maximum(time - run.joints.stamp[joints], time - run.imu.stamp[imu]) <= STALE
    known = np.maximum.accumulate(slip) <= SLIP
    left_out[UNKNOWN_PHASE] += int((~known).sum())
    left_out[NO_STATE] += int((known & ~fresh).sum())
    steps = StepRecord(
        time,
        run.targets.stamp[np.maximum(rows - 1, 0)],
        run.joints.stamp[joints],
        run.imu.stamp[imu],
        np.append(True, ~fresh[:-1]),
        command,
    )
    return StepRecord(**{name: values[known & fresh] for name, values in vars(steps).items()})


def _commands(robot: Robot, rate: float, wanted: Array) -> Array:
    shaper = CommandShaper(robot.commands, robot.gait, 1.0 / rate)
    return np.array([shaper.step(setpoint)[0] for setpoint in wanted])
