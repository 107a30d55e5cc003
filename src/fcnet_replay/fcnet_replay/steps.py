"""The steps of a policy in a run: recorded by its controller, inferred from its targets, or over states alone.

controller/policy_step has the messages that each step saw, and its command. Without it, every target that was sent
while walking is a step, and its command follows from the recorded setpoints. The controller advances its gait clock
once for each step, so the gait's phase follows from the number of targets since the start of the walk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask, Rows
from fcnet_core.control.command import CommandShaper
from fcnet_core.names import Mode
from fcnet_core.observation import Known, ObservationBuilder, PolicyInterface
from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_replay.run import STALE, Run, StepRecord, newest, same

LARGEST = 1e6  # [rad, rad/s] larger numbers are damage
LATE = 1.5  # usual periods between two steps; a longer interval may contain another one
SLIP = 2.5  # periods by which targets may be fewer than time allows, which bounds the error of the gait's phase
SIMULTANEOUS = 1e-6  # [s] tolerance of equal times
PAUSE = 5.0  # periods without a target, after which the policy starts cold


Basis = Literal["recorded", "inferred", "alone"]


@dataclass(frozen=True)
class Steps:
    """K steps, in order. basis: recorded by the controller, inferred from targets, or of a policy alone with the
    states. record: stamps, cold starts and commands; joints, imu, target, previous (K,): rows of the messages that each
    step saw, of its target and of the target before, -1 if the run lacks the message; missing (K,): number of steps
    that the run lacks before each.

    usable (K,): the run has all four messages, with possible numbers. phase_known (K,): the run has the start of their
    walk and all its targets so far; the gait's phase of other steps is counted from the first target in the run.
    """

    basis: Basis
    record: StepRecord
    joints: Rows
    imu: Rows
    target: Rows
    previous: Rows
    missing: Rows
    usable: Mask
    phase_known: Mask

    def __len__(self) -> int:
        return len(self.joints)

    def chosen(self, mask: Mask | Rows) -> Steps:
        """Return the steps of a mask or of indices."""
        record = StepRecord(*(values[mask] for values in vars(self.record).values()))
        rows: dict[str, Any] = {name: values[mask] for name, values in vars(self).items() if np.ndim(values)}
        return replace(self, record=record, **rows)

    def known_before(self, run: Run) -> Known:
        """Return what the runner knew before each step (K,), apart from outputs; all steps must be usable."""
        last = run.targets.position[self.previous]
        older = last if not len(last) else np.where(self.record.cold[:, None], last, np.roll(last, 1, axis=0))
        return Known(self.record.setpoint, self.record.phase, self.record.walking, (last, older))

    def observations(self, run: Run, interface: PolicyInterface) -> npt.NDArray[np.float32]:
        """Return the observations (K, n) of a policy without terms that look back; all steps must be usable."""
        builder = ObservationBuilder(interface, run.joint_names)
        return builder.build(run.state(self.joints, self.imu), self.known_before(run))


def extract_steps(run: Run, shaper: CommandShaper) -> Steps:
    """Return the recorded steps of a run, else steps inferred for a policy with the period and commands of `shaper`."""
    recorded = len(run.steps.target_stamp) > 0
    record, phase_known = (run.steps, np.ones(len(run.steps.cold), np.bool_)) if recorded else _infer(run, shaper)
    joints, imu = same(run.joints.stamp, record.joints_stamp), same(run.imu.stamp, record.imu_stamp)
    target, previous = same(run.targets.stamp, record.target_stamp), same(run.targets.stamp, record.previous_stamp)
    usable: Mask = np.minimum.reduce([joints, imu, target, previous]) >= 0
    usable &= (np.abs(record.setpoint) < LARGEST).all(axis=1) & np.isfinite(record.phase)
    for values, rows in (
        (run.joints.position, joints),
        (run.joints.velocity, joints),
        (run.imu.orientation, imu),
        (run.imu.angular_velocity, imu),
        (run.targets.position, target),
        (run.targets.position, previous),
    ):
        usable[usable] = (np.abs(values[rows[usable]]) < LARGEST).all(axis=1)  # NaN is not smaller
    missing = missing_before(record, target, previous) if recorded else np.zeros_like(target)
    basis: Basis = "recorded" if recorded else "inferred"
    return Steps(basis, record, joints, imu, target, previous, missing, usable, phase_known)


def steps_over_states(run: Run, shaper: CommandShaper) -> Steps:
    """Return steps over all states of a run, for a policy with the period and commands of `shaper`.

    Each period from the start of an episode has a step with its newest usable state; each episode starts cold.
    The targets have the stamps of the joint states; a target of the run with the same stamp is the recorded one.
    """
    period, time, imu = shaper.clock.period, run.joints.stamp, newest(run.imu.stamp, run.joints.stamp)
    seen = (run.joints.position, run.joints.velocity, run.imu.orientation[imu], run.imu.angular_velocity[imu])
    measured = np.logical_and.reduce([np.isfinite(values).all(axis=1) for values in seen])
    later = time > np.maximum.accumulate(np.append(-np.inf, time[:-1]))
    rows = np.flatnonzero(measured & later & (imu >= 0) & (time - run.imu.stamp[imu] <= STALE))
    begins = np.diff(time[rows]) > STALE if run.starts is None else same(run.starts, time[rows[1:]]) >= 0
    chosen, first = [rows[:0]], [np.zeros(0, dtype=np.bool_)]
    for part in np.split(rows, np.flatnonzero(begins) + 1) if len(rows) else ():
        since = time[part] - time[part[0]]
        cycles = period * np.arange(int(np.floor((since[-1] + SIMULTANEOUS) / period)) + 1)
        chosen.append(part[np.searchsorted(since, cycles + SIMULTANEOUS, side="right") - 1])
        first.append(np.arange(len(cycles)) == 0)
    joints, cold = np.concatenate(chosen), np.concatenate(first)
    imu, time = imu[joints], time[joints]
    commands = _commands(run.setpoints.at(run.joints.received[joints]), cold, shaper)
    record = StepRecord(time, np.full(len(time), np.nan), time, run.imu.stamp[imu], cold, *commands)
    none, every = np.full(len(time), -1), np.ones(len(time), dtype=np.bool_)
    return Steps("alone", record, joints, imu, same(run.targets.stamp, time), none, np.zeros_like(none), every, every)


def missing_before(steps: StepRecord, target: Rows, previous: Rows) -> Rows:
    """Return the number of steps that are missing before each recorded step (K,).

    There is a target for each control cycle between two steps, however late. Fewer targets mean missing steps only if
    there was time for another step. target, previous (K,): see Steps.
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


def _infer(run: Run, shaper: CommandShaper) -> tuple[StepRecord, Mask]:
    """Infer steps from the targets that were sent while walking; return them with Steps.phase_known.

    Every target is a step, or every n-th if the controller ran n times as fast as the policy. Without recorded modes
    all targets count as walking.
    """
    run = replace(run, targets=replace(run.targets, received=np.maximum.accumulate(run.targets.received)))
    period, all_received = shaper.clock.period, run.targets.received
    sent = np.logical_and.reduce(np.isfinite(run.targets.position), axis=1)  # the others ask for damping
    segments = _segments_by_mode(run, sent, period) if run.mode.modes else _segments_by_pauses(run, sent, period)
    parts = [(np.empty(0, dtype=np.int64), *(np.empty(0, dtype=np.bool_),) * 2)]  # rows, phase_known, first
    for begin, end, started in segments:
        interval = run.period or float(np.median(np.diff(all_received[begin:end])))
        rows = np.arange(begin, end, max(round(period / interval), 1) if interval > 0 else 1)
        # If the number of steps does not fit the time, the bag lacks targets, or the controller missed cycles.
        slip = (all_received[rows] - all_received[begin]) / period - np.arange(len(rows))
        whole = np.logical_and.accumulate(np.abs(slip) <= SLIP)
        parts.append((rows, whole & started, np.arange(len(rows)) == 0))
    row, phase_known, first = map(np.concatenate, zip(*parts, strict=True))
    time, received, before = run.targets.stamp[row], all_received[row], np.maximum(row - 1, 0)
    paused = np.diff(received, prepend=-np.inf) > PAUSE * period
    record = StepRecord(
        time,
        run.targets.stamp[np.where(sent[before], before, row)],
        _seen(run.joints.stamp, time),
        _seen(run.imu.stamp, time),
        first | paused,
        *_commands(run.setpoints.at(received), first, shaper),
    )
    return record, phase_known


def _segments_by_mode(run: Run, sent: Mask, period: float) -> list[tuple[int, int, bool]]:
    """Return the targets sent in walking mode: first row, end, and whether the first one begins the walk, which is
    unknown if the first mode is walking.
    """
    received, changed = run.targets.received, run.mode.received
    # A mode is published just after its first target, which is therefore the last one received before the mode.
    bounds = [*np.maximum(np.searchsorted(received, changed, side="right") - 1, 0).tolist(), len(received)]
    segments = []
    for change, (mode, begin, next_begin) in enumerate(zip(run.mode.modes, bounds, bounds[1:], strict=False)):
        # A controller that is stopped sends damping without a change of mode: the segment ends with the last target.
        end = begin + int(np.flatnonzero(sent[begin:next_begin]).max(initial=-1)) + 1
        if mode == Mode.WALKING and end - begin > 1:
            started = change > 0 and abs(changed[change] - received[begin]) <= SLIP * period
            segments.append((begin, end, bool(started)))
    return segments


def _segments_by_pauses(run: Run, sent: Mask, period: float) -> list[tuple[int, int, bool]]:
    """Return the targets between pauses and damping. Whether the robot walked in between is unknown."""
    parts = np.flatnonzero((np.diff(run.targets.received) > PAUSE * period) | (np.diff(sent) != 0)) + 1
    bounds = [0, *parts.tolist(), len(sent)]
    return [(begin, end, False) for begin, end in pairwise(bounds) if end - begin > 1 and sent[begin]]


def _seen(stamps: Array, time: Array) -> Array:
    """Return the newest stamp at each time; NaN if it is stale."""
    rows = newest(stamps, time)
    return np.where((rows >= 0) & (time - stamps[rows] <= STALE), stamps[rows], np.nan)


def _commands(setpoints: Array, begins: Mask, shaper: CommandShaper) -> tuple[Array, Array, Mask]:
    """Return the shaped setpoints (K, 9), and phase and walking (K,) of the gait clock."""
    shaped, phase, walking = np.empty((len(setpoints), len(SETPOINT_FIELDS))), np.empty(len(setpoints)), begins.copy()
    for step, cold in enumerate(begins.tolist()):
        if cold:
            shaper.reset()
        shaper.step(setpoints[step])
        shaped[step], phase[step], walking[step] = shaper.setpoint[0], shaper.clock.phase[0], shaper.clock.walking[0]
    return shaped, phase, walking
