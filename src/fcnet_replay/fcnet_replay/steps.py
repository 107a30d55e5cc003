"""The steps of a policy in a run: as its controller recorded them, inferred from its targets, or over states alone.

controller/policy_step says of each step which messages the policy saw and which command it was given. Other bags hold
targets only. Then every target that was sent while walking is a step, and its command follows from the recorded
setpoints: a controller advances its gait clock once for every step, so the gait's phase follows from the number of
targets since walking began, however irregularly they came.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask, Rows
from fcnet_core.control.command import COMMAND_SIZE, CommandShaper
from fcnet_core.names import Mode
from fcnet_core.observation import assemble_observation
from fcnet_replay.run import STALE, Run, StepRecord, newest, same

LARGEST = 1e6  # [rad, rad/s] no sensor measures more; a larger number is damage
LATE = 1.5  # usual periods between two steps; in a longer time there may have been another one
SLIP = 2.5  # periods by which targets may be fewer than time allows: as much as the gait's phase may be wrong
MISCOUNT = 1.5  # periods; a controller counts its cycles while a target is on its way
SIMULTANEOUS = 1e-6  # [s] two times nearer than this are the same
PAUSE = 5.0  # periods without a target, after which the policy starts cold


Basis = Literal["recorded", "inferred", "alone"]


@dataclass(frozen=True)
class Steps:
    """K steps, in order. basis: as the controller recorded them, inferred from targets, or of a policy that is left
    alone with the states. record: stamps, cold starts and commands; joints, imu, target, previous (K,): rows in the
    run's records of what each step saw, of the target that it sent and of the one sent before, -1 where the run lacks
    the message; missing (K,): how many steps the run lacks before each.

    known (K,): all four messages are there; usable (K,): and hold numbers that can be. begun (K,): the run holds the
    beginning of their walk; whole (K,): it lacks no targets of that walk so far. The gait's phase of inferred steps is
    the recorded one where both are so; elsewhere it is counted from the first target that there is.
    """

    basis: Basis
    record: StepRecord
    joints: Rows
    imu: Rows
    target: Rows
    previous: Rows
    missing: Rows
    known: Mask
    usable: Mask
    begun: Mask
    whole: Mask

    def __len__(self) -> int:
        return len(self.joints)

    @property
    def phase_known(self) -> Mask:
        """Steps (K,) of which the gait's phase is the recorded one."""
        return self.begun & self.whole

    def chosen(self, mask: Mask | Rows) -> Steps:
        """Some of them, by a mask or by their numbers."""
        record = StepRecord(*(values[mask] for values in vars(self.record).values()))
        rows: dict[str, Any] = {name: values[mask] for name, values in vars(self).items() if np.ndim(values)}
        return replace(self, record=record, **rows)

    def observations(self, run: Run) -> npt.NDArray[np.float32]:
        """What the policy saw (K, 70), where all steps are usable."""
        return assemble_observation(
            run.imu.orientation[self.imu],
            run.imu.angular_velocity[self.imu],
            run.joints.position[self.joints],
            run.joints.velocity[self.joints],
            run.targets.position[self.previous],
            self.record.command,
        )


def extract_steps(run: Run, shaper: CommandShaper) -> Steps:
    """The steps of a run: the recorded ones, else those inferred for a policy that steps and shapes its commands as
    `shaper` does.
    """
    recorded = len(run.steps.target_stamp) > 0
    certain = np.ones(len(run.steps.target_stamp), dtype=np.bool_)
    record, begun, whole = (run.steps, certain, certain) if recorded else _infer(run, shaper)
    joints, imu = same(run.joints.stamp, record.joints_stamp), same(run.imu.stamp, record.imu_stamp)
    target, previous = same(run.targets.stamp, record.target_stamp), same(run.targets.stamp, record.previous_stamp)
    known = (joints >= 0) & (imu >= 0) & (target >= 0) & (previous >= 0)
    usable: Mask = known & (np.abs(record.command) < LARGEST).all(axis=1)
    for values, rows in (
        (run.joints.position, joints),
        (run.joints.velocity, joints),
        (run.imu.orientation, imu),
        (run.imu.angular_velocity, imu),
        (run.targets.position, target),
        (run.targets.position, previous),
    ):
        usable[usable] = (np.abs(values[rows[usable]]) < LARGEST).all(axis=1)  # NaN is not smaller
    return Steps(
        "recorded" if recorded else "inferred",
        record,
        joints,
        imu,
        target,
        previous,
        missing_before(record, target, previous) if recorded else np.zeros(len(known), dtype=np.int64),
        known,
        usable,
        begun,
        whole,
    )


def steps_over_states(run: Run, shaper: CommandShaper) -> Steps:
    """Steps over all states of a run, for a policy that is left to itself and shapes its commands as `shaper` does.

    It is asked at its own rate, with the newest state of each of its periods that can be one, and starts cold with
    every episode. The stamps of its targets are those of the joint states; a target of the run with the same stamp is
    its recorded one.
    """
    joints, imu, first = _state_rows(run, shaper.clock.period)
    time = run.joints.stamp[joints]
    command = _commands(run.setpoints.at(run.joints.received[joints]), first, shaper)
    record = StepRecord(time, np.full(len(time), np.nan), time, run.imu.stamp[imu], first, command)
    none, every = np.full(len(time), -1), np.ones(len(time), dtype=np.bool_)
    target = same(run.targets.stamp, time)
    return Steps("alone", record, joints, imu, target, none, np.zeros_like(none), every, every, every, every)


def _state_rows(run: Run, period: float) -> tuple[Rows, Rows, Mask]:
    """Rows of joints and imu (K,) that a controller would have used that runs every `period` [s], and those with which
    an episode begins. Cycles count from there.
    """
    time, imu = run.joints.stamp, newest(run.imu.stamp, run.joints.stamp)
    seen = (run.joints.position, run.joints.velocity, run.imu.orientation[imu], run.imu.angular_velocity[imu])
    measured = np.logical_and.reduce([np.isfinite(values).all(axis=1) for values in seen])
    later = time > np.maximum.accumulate(np.append(-np.inf, time[:-1]))
    rows = np.flatnonzero(measured & later & (imu >= 0) & (time - run.imu.stamp[imu] <= STALE))
    if not len(rows):
        return rows, rows, np.zeros(0, dtype=np.bool_)
    begins = np.diff(time[rows]) > STALE if run.starts is None else same(run.starts, time[rows[1:]]) >= 0
    chosen, first = [], []
    for part in np.split(rows, np.flatnonzero(begins) + 1):
        since = time[part] - time[part[0]]
        cycles = period * np.arange(int(np.floor((since[-1] + SIMULTANEOUS) / period)) + 1)
        chosen.append(part[np.searchsorted(since, cycles + SIMULTANEOUS, side="right") - 1])
        first.append(np.arange(len(cycles)) == 0)
    joints = np.concatenate(chosen)
    return joints, imu[joints], np.concatenate(first)


def missing_before(steps: StepRecord, target: Rows, previous: Rows) -> Rows:
    """How many steps are missing before each recorded step (K,): between two steps there are as many targets as control
    cycles, however late these were. Fewer mean targets that the bag lacks, and nothing else while there was no time for
    more. target, previous (K,): see Steps.
    """
    missing = np.zeros(len(target), dtype=np.int64)
    if len(target) < 2:
        return missing
    follows = (target[:-1] >= 0) & (previous[1:] >= 0) & ~steps.cold[1:]
    if not follows.any():
        return missing
    between, time = previous[1:] - target[:-1] + 1, np.diff(steps.target_stamp)
    cycles, period = max(int(np.median(between[follows])), 1), float(np.median(time[follows]))
    wrong = follows & ((between > cycles) | (between < 1) | ((between < cycles) & (time > LATE * period)))
    missing[1:][wrong] = np.maximum(np.round(between[wrong] / cycles).astype(np.int64) - 1, 1)
    return missing


@dataclass(frozen=True)
class _TargetSegment:
    """Targets from row `begin` to before `end`; begun: whether `begin` is the first that was sent."""

    begin: int
    end: int
    begun: bool


def _infer(run: Run, shaper: CommandShaper) -> tuple[StepRecord, Mask, Mask]:
    """One step for every target that was sent while walking, or, where the controller ran n times as fast as the
    policy, for every n-th; without recorded modes, for all the time that targets were sent. With it Steps.begun, whole.
    """
    period = shaper.clock.period
    sent = np.logical_and.reduce(np.isfinite(run.targets.position), axis=1)  # others ask for damping
    segments = _segments_by_mode(run, sent, period) if run.mode.modes else _segments_by_pauses(run, sent, period)
    held = np.append(False, (np.diff(run.targets.position, axis=0) == 0).all(axis=1)).tolist()
    none = np.empty(0, dtype=np.bool_)
    rows, begun, whole, first = [np.empty(0, dtype=np.int64)], [none], [none], [none]
    for segment in segments:
        usual = run.period or float(np.median(np.diff(run.targets.received[segment.begin : segment.end])))
        cycles = max(round(period / usual), 1) if usual > 0 else 1
        part = _step_rows(held, segment, cycles)
        rows.append(part)
        begun.append(np.full(len(part), segment.begun))
        whole.append(_whole(run, part, period, cycles))
        first.append(np.arange(len(part)) == 0)
    row, begins = np.concatenate(rows), np.concatenate(first)
    time, received, before = run.targets.stamp[row], run.targets.received[row], np.maximum(row - 1, 0)
    record = StepRecord(
        target_stamp=time,
        previous_stamp=run.targets.stamp[np.where(sent[before], before, row)],
        joints_stamp=_seen(run.joints.stamp, time),
        imu_stamp=_seen(run.imu.stamp, time),
        cold=begins | np.append(True, np.diff(received) > PAUSE * period)[: len(row)],
        command=_commands(run.setpoints.at(received), begins, shaper),
    )
    return record, np.concatenate(begun), np.concatenate(whole)


def _segments_by_mode(run: Run, sent: Mask, period: float) -> list[_TargetSegment]:
    """A mode is published just after its first target. If the first one is walking, it is unknown since when."""
    order = np.argsort(run.mode.received, kind="stable").tolist()
    received, changed = run.targets.received, np.append(run.mode.received[order], np.inf)
    rows = np.maximum(np.searchsorted(received, changed, side="right") - 1, 0)
    rows[-1] = len(received)
    segments = []
    for change, mode in enumerate(run.mode.modes[place] for place in order):
        begin = int(rows[change])
        # A controller that is stopped damps and changes no mode.
        end = begin + int(np.append(0, np.flatnonzero(sent[begin : rows[change + 1]]) + 1)[-1])
        if mode == Mode.WALKING and end - begin > 1:
            segments.append(
                _TargetSegment(begin, end, change > 0 and abs(changed[change] - received[begin]) <= SLIP * period)
            )
    return segments


def _segments_by_pauses(run: Run, sent: Mask, period: float) -> list[_TargetSegment]:
    """Between pauses and damping; what the robot did meanwhile, and whether it walked, is unknown."""
    parts = np.flatnonzero((np.diff(run.targets.received) > PAUSE * period) | (np.diff(sent) != 0)) + 1
    bounds = [0, *parts.tolist(), len(sent)]
    return [_TargetSegment(begin, end, False) for begin, end in pairwise(bounds) if end - begin > 1 and sent[begin]]


def _step_rows(held: list[bool], segment: _TargetSegment, cycles: int) -> Rows:
    """Between two steps the policy's targets hold: one that is found held comes after the step, because the bag lacks
    one of the targets held before it. held: whether a target is the one before it.
    """
    if cycles == 1:
        return np.arange(segment.begin, segment.end)
    rows, row = [], segment.begin
    while row < segment.end:
        late = next((late for late in range(cycles // 2 + 1) if not held[row - late]), 0)
        rows.append(row - late)
        row += cycles - late
    return np.array(rows)


def _whole(run: Run, rows: Rows, period: float, cycles: int) -> Mask:
    """Steps of a walk until which the bag lacks no targets: they came as time allows, or as many as the controller
    counted cycles.
    """
    received, counted = run.targets.received[rows], run.cycles.received
    slip = (received - received[0]) / period - np.arange(len(rows))
    last = np.searchsorted(counted, received, side="right") - 1
    if last[0] < 0:  # how many there were before the walk is unknown
        good: Mask = np.abs(slip) <= SLIP
    else:
        lacking = run.cycles.count - np.searchsorted(run.targets.received, counted, side="right")  # up to a constant
        following = np.minimum(last + 1, len(counted) - 1)
        right, still_right = (np.abs(lacking[row] - lacking[last[0]]) <= MISCOUNT * cycles for row in (last, following))
        step_then = np.maximum(np.searchsorted(received, counted[last], side="right") - 1, 0)
        good = (still_right & (following > last)) | (right & (np.abs(slip - slip[step_then]) <= SLIP))
    whole: Mask = np.logical_and.accumulate(good)
    return whole


def _seen(stamps: Array, time: Array) -> Array:
    """The newest of the stamps at each time; NaN where even that is stale."""
    rows = newest(stamps, time)
    return np.where((rows >= 0) & (time - stamps[rows] <= STALE), stamps[rows], np.nan)


def _commands(setpoints: Array, begins: Mask, shaper: CommandShaper) -> Array:
    commands = np.empty((len(setpoints), COMMAND_SIZE))
    for step, cold in enumerate(begins.tolist()):
        if cold:
            shaper.reset()
        commands[step] = shaper.step(setpoints[step])[0]
    return commands
