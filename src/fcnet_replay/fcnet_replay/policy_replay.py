"""Replays a policy over a run: at each recorded step, or by itself over the recorded states."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.control.runner import JointLimiter, PolicyRunner, recorded_targets
from fcnet_core.model_file import PolicyModel
from fcnet_core.policy import load_policy
from fcnet_core.robot import Robot
from fcnet_replay.run import Run, StepRecord
from fcnet_replay.steps import Basis, Steps, extract_steps, steps_over_states

MOST_STARTS = 2000  # cold starts; each costs as much as many steps
SLOWEST = 0.8  # share of the policy's rate at which targets must come to be compared with its own


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
    if steps.basis == "inferred" and slow:
        replay = walk_over_states(run.without_targets(), model, robot)
    else:
        replay = replay_steps(run, steps, model, robot)
    return replace(replay, label=label, name=name)


def replay_steps(run: Run, steps: Steps, model: PolicyModel, robot: Robot) -> PolicyReplay:
    """Replay the policy of `model` at these steps, with the measured states and the recorded targets (open loop)."""
    cold, comparable = cold_and_comparable(steps.usable, steps.record.cold, steps.missing > 0, model.card.memory)
    known = steps.usable & (np.cumsum(cold) <= MOST_STARTS)
    taken, cold = steps.chosen(known), cold[known]
    period, states = run.period or 1.0 / model.card.interface.rate, run.state(taken.joints, taken.imu)
    return PolicyReplay(
        model,
        run.joint_names,
        steps.basis,
        time=run.targets.stamp[taken.target],
        action=recorded_targets(model, robot, period, states, taken.known_before(run), cold),
        recorded=run.targets.position[taken.target],
        record=taken.record,
        cold=cold,
        comparable=comparable[known],
        lost=int((~known).sum()),
        missing=int(steps.missing.sum()),
        unknown_phase=int((~steps.phase_known).sum()),
    )


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
    return PolicyReplay(
        model,
        run.joint_names,
        "alone",
        time=steps.record.target_stamp,
        action=action,
        recorded=recorded,
        record=steps.record,
        cold=steps.record.cold,
        comparable=np.isfinite(recorded).all(axis=1),
        lost=0 if len(steps) else len(run.joints.stamp),
    )
