"""Replays a policy over a run: at its steps, recorded by its controller or inferred from its targets, or by itself over
the recorded states.

controller/policy_step has the messages that each step saw, and its command. Without it, every target that was sent
while walking is a step, and its command follows from the recorded setpoints. The controller advances its gait clock
once for each step, so the gait's phase follows from the number of targets since the start of the walk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask, Rows
from fcnet_core.control.command import CommandShaper
from fcnet_core.control.runner import JointLimiter, PolicyRunner, recorded_targets
from fcnet_core.model_file import PolicyModel
from fcnet_core.names import Mode
from fcnet_core.observation import Known, ObservationBuilder, PolicyInterface
from fcnet_core.policy import load_policy
from fcnet_core.robot import SETPOINT_FIELDS, Robot
from fcnet_replay.run import STALE, Run, StepRecord, newest, same

LARGEST = 1e6  # [rad, rad/s] larger numbers are damage
LATE = 1.5  # usual periods between two steps; a longer interval may contain another one
SLIP = 2.5  # periods by which targets may be fewer than time allows, which bounds the error of the gait's phase
SIMULTANEOUS = 1e-6  # [s] tolerance of equal times
PAUSE = 5.0  # periods without a target, after which the policy starts cold
MOST_STARTS = 2000  # cold starts; each costs as much as many steps
SLOWEST = 0.8  # share of the policy's rate at which targets must come to be compared with its own

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
    rows = np.flatnonzero(usable)
    state = run.state(joints[rows], imu[rows])
    seen = (state.joint_position, state.joint_velocity, state.orientation, state.angular_velocity)
    sent = (run.targets.position[target[rows]], run.targets.position[previous[rows]])
    usable[rows] = (np.abs(np.hstack([*seen, *sent])) < LARGEST).all(axis=1)  # NaN is not smaller
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
    fresh = (imu >= 0) & (time - run.imu.stamp[imu] <= STALE)
    rows = np.flatnonzero(measured & fresh & (np.diff(time, prepend=-np.inf) > 0))
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
    previous = run.targets.stamp[np.where(sent[before], before, row)]
    joints, imu = _seen(run.joints.stamp, time), _seen(run.imu.stamp, time)
    setpoint, phase, walking = _commands(run.setpoints.at(received), first, shaper)
    return StepRecord(time, previous, joints, imu, first | paused, setpoint, phase, walking), phase_known


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


@dataclass(frozen=True)
class PolicyReplay:
    """K steps of a policy in a run.

    time (K,) [s]: stamps of the recorded targets, or of the states; action (K, J) [rad]: targets of the policy for
    joint_names, limited as by the controller; recorded (K, J) [rad]: sent targets, NaN if unknown; record: the steps as
    recorded; cold (K,): steps before which the memory was cleared; comparable (K,): steps in which the memory equals
    that of the recorded policy.
    Numbers of steps: lost: not replayed, because the run lacks a message that they saw; missing: not in the run;
    unknown_phase: with unknown phase of the gait. label: A, B, ...; name: the policy's file.
    """

    model: PolicyModel
    joint_names: tuple[str, ...]
    basis: Basis
    time: Array
    action: Array
    recorded: Array
    record: StepRecord
    cold: Mask
    comparable: Mask
    lost: int = 0
    missing: int = 0
    unknown_phase: int = 0
    label: str = "A"
    name: str = ""

    @property
    def period(self) -> float:
        """Time [s] between steps."""
        return 1.0 / self.model.card.interface.rate

    @property
    def error(self) -> Array:
        """Action less recorded target (K, J) [rad]; NaN if not comparable."""
        return np.where(self.comparable[:, None], self.action - self.recorded, np.nan)


def cold_and_comparable(usable: Mask, recorded_cold: Mask, missing: Mask, memory: float) -> tuple[Mask, Mask]:
    """Return which steps (K,) start cold, and in which the memory equals that of the recorded policy.

    usable (K,): steps that can be replayed; recorded_cold (K,): steps with which the recorded policy started cold;
    missing (K,): steps before which the recording lacks others.

    The memory is cleared when the recorded policy cleared it, at the first step, and after lost or missing steps. In
    the last two cases the memories differ until the recorded policy starts cold, or for `memory` steps, until the steps
    before the gap have left both memories.
    """
    held = 0.0  # newest steps that both memories hold; infinite after a cold start of both
    cold, comparable = np.zeros((2, len(usable)), dtype=np.bool_)
    for step in range(len(usable)):
        if not usable[step]:
            held = 0.0
            continue
        held = math.inf if recorded_cold[step] else 0.0 if missing[step] else held
        cold[step], comparable[step] = recorded_cold[step] or not held, held >= memory
        held += 1
    return cold, comparable


def replay_policy(run: Run, model: PolicyModel, robot: Robot, label: str = "A", name: str = "") -> PolicyReplay:
    """Replay a policy at the steps of the run, or over its states if targets were not sent at the policy's rate."""
    run.check_robot(robot)
    steps = extract_steps(run, model.command_shaper())
    time = steps.record.target_stamp
    slow = len(time) < 2 or np.median(np.diff(time)) * model.card.interface.rate > 1.0 / SLOWEST
    alone = steps.basis == "inferred" and slow
    found = walk_over_states(run.without_targets(), model, robot) if alone else replay_steps(run, steps, model, robot)
    return replace(found, label=label, name=name)


def replay_steps(run: Run, steps: Steps, model: PolicyModel, robot: Robot) -> PolicyReplay:
    """Replay the policy of `model` at these steps, with the measured states and the recorded targets (open loop)."""
    cold, comparable = cold_and_comparable(steps.usable, steps.record.cold, steps.missing > 0, model.card.memory)
    known = steps.usable & (np.cumsum(cold) <= MOST_STARTS)
    taken, cold = steps.chosen(known), cold[known]
    period, states = run.period or 1.0 / model.card.interface.rate, run.state(taken.joints, taken.imu)
    action = recorded_targets(model, robot, period, states, taken.known_before(run), cold)
    time, recorded = run.targets.stamp[taken.target], run.targets.position[taken.target]
    found = PolicyReplay(
        model, run.joint_names, steps.basis, time, action, recorded, taken.record, cold, comparable[known]
    )
    unknown_phase = int((~steps.phase_known).sum())
    return replace(found, lost=int((~known).sum()), missing=int(steps.missing.sum()), unknown_phase=unknown_phase)


def walk_over_states(run: Run, model: PolicyModel, robot: Robot) -> PolicyReplay:
    """Run the policy of `model` over the states of a run with the controller's code, see steps_over_states.

    The last sent targets are the recorded ones if the run has them, otherwise the policy's own. The measured position
    is the target before the first. Recorded targets have the stamps of the states.
    """
    run.check_robot(robot)
    rate, steps = model.card.interface.rate, steps_over_states(run, model.command_shaper())
    target = np.append(run.targets.position, np.full((1, len(run.joint_names)), np.nan), axis=0)
    recorded = target[steps.target]  # -1 is the row of the unknown
    limiter = JointLimiter(robot, 1.0 / rate)
    runner = PolicyRunner(load_policy(model), model.card.interface, limiter)
    action = np.empty_like(recorded)
    for step, (joints, imu) in enumerate(zip(steps.joints.tolist(), steps.imu.tolist(), strict=True)):
        if steps.record.cold[step]:
            runner.reset()
            limiter.start(run.joints.position[joints])
        elif np.isfinite(recorded[step - 1]).all():
            limiter.start(recorded[step - 1])
        runner.repeat_command(*steps.record.command(step))
        action[step] = runner.targets(run.state(joints, imu))
    record, comparable = steps.record, np.isfinite(recorded).all(axis=1)
    lost = 0 if len(steps) else len(run.joints.stamp)
    return PolicyReplay(
        model, run.joint_names, "alone", record.target_stamp, action, recorded, record, record.cold, comparable, lost
    )
