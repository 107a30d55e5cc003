"""Steps of a policy for a bag that does not tell them: put together from the stamps of what was measured and sent."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.command import CommandShaper
from fcnet_core.model_file import PolicyModel
from fcnet_core.replay.recorded_run import RecordedRun, StepRecord
from fcnet_core.replay.timed_states import TimedStates
from fcnet_core.robot import SETPOINT_FIELDS

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
STALE = 0.1  # [s] an older state is none: the controller would not have walked on it
COMMAND_TIMEOUT = 0.5  # [s] an older velocity command is none, as in the controller
PAUSE = 5  # periods without a target, after which the policy starts cold
EARLY = 0.3  # periods that a target may come early and be the next one nevertheless
SLOWEST = 0.8  # share of the policy's rate at which targets must come to be compared with its own


def aligned_steps(run: RecordedRun, model: PolicyModel) -> StepRecord | None:
    """One step for every target that was sent while walking, at the policy's rate: with the newest state before it and
    the commands of its time. None when too few targets were recorded for that.
    """
    period = 1.0 / model.card.control_rate
    rows = _spaced(run.targets.stamp, _walking_targets(run), (1.0 - EARLY) * period)
    if len(rows) < 2 or np.median(np.diff(run.targets.stamp[rows])) > period / SLOWEST:
        return None
    time = run.targets.stamp[rows]
    joints, imu = newest(run.joints.stamp, time), newest(run.imu.stamp, time)
    age = np.maximum(time - run.joints.stamp[joints], time - run.imu.stamp[imu])
    cold = np.append(True, np.diff(time) > PAUSE * period)
    command = _commands(model, setpoints(run, time), cold)
    previous = np.append(rows[0], rows[:-1])
    good = (joints >= 0) & (imu >= 0) & (age <= STALE)
    return StepRecord(
        time[good],
        run.targets.stamp[previous][good],
        run.joints.stamp[joints][good],
        run.imu.stamp[imu][good],
        (cold | np.append(False, ~good[:-1]))[good],
        command[good],
    )


def timed_states(run: RecordedRun) -> TimedStates:
    """The states of a bag without targets, for a policy that is told its own; cold after every gap of STALE."""
    finite = np.isfinite(run.joints.position).all(axis=1) & np.isfinite(run.joints.velocity).all(axis=1)
    later = run.joints.stamp > np.maximum.accumulate(np.append(-np.inf, run.joints.stamp[:-1]))
    imu = newest(run.imu.stamp, run.joints.stamp)
    told = np.isfinite(run.imu.orientation[imu]).all(axis=1) & np.isfinite(run.imu.angular_velocity[imu]).all(axis=1)
    rows = np.flatnonzero(finite & later & told & (imu >= 0))
    time = run.joints.stamp[rows]
    return TimedStates(
        time,
        run.joints.position[rows],
        run.joints.velocity[rows],
        run.imu.orientation[imu[rows]],
        run.imu.angular_velocity[imu[rows]],
        setpoints(run, time),
        np.append(True, np.diff(time) > STALE)[: len(time)],
    )


def newest(stamps: Array, time: Array) -> Rows:
    """Which of `stamps` is the newest at each time; -1 before the first. Out of order, the newest is the largest."""
    order = np.argsort(stamps, kind="stable")
    place = np.searchsorted(stamps[order], time, side="right") - 1
    return np.where(place >= 0, order[place], -1)


def setpoints(run: RecordedRun, time: Array) -> Array:
    """What people asked for (T, 9) in SETPOINT_FIELDS order, at each time."""
    wanted = np.zeros((len(time), len(SETPOINT_FIELDS)))
    if len(run.velocity.received):
        rows = newest(run.velocity.received, time)
        fresh = (rows >= 0) & (time - run.velocity.received[rows] <= COMMAND_TIMEOUT)
        wanted[fresh, 0:3] = run.velocity.velocity[rows[fresh]]
    if len(run.pose.received):
        rows = newest(run.pose.received, time)
        wanted[rows >= 0, 3:6] = run.pose.pose[rows[rows >= 0]]
    return np.nan_to_num(wanted, nan=0.0, posinf=0.0, neginf=0.0)


def _walking_targets(run: RecordedRun) -> Rows:
    """Rows of targets with positions, of the mode `walking` where the modes were recorded."""
    sent = np.isfinite(run.targets.position).all(axis=1)
    if run.mode.modes:
        mode = newest(run.mode.received, run.targets.received)
        walking = np.array([mode == "walking" for mode in run.mode.modes])
        sent &= (mode >= 0) & walking[mode]
    return np.flatnonzero(sent)


def _spaced(stamps: Array, rows: Rows, interval: float) -> Rows:
    """Of these rows, in order, those that come at least `interval` after the one chosen before."""
    chosen, due = [], -np.inf
    for row, stamp in zip(rows.tolist(), stamps[rows].tolist(), strict=True):
        if stamp >= due:
            chosen.append(row)
            due = stamp + interval
    return np.array(chosen, dtype=np.int64)


def _commands(model: PolicyModel, wanted: Array, cold: npt.NDArray[np.bool_]) -> Array:
    shaper = CommandShaper(model.command_ranges, model.gait, 1.0 / model.card.control_rate)
    commands = []
    for setpoint, begins in zip(wanted, cold.tolist(), strict=True):
        if begins:
            shaper.reset()
        commands.append(shaper.step(setpoint)[0])
    return np.array(commands)
