"""One policy over one recorded run: by the steps that were recorded, or as near to them as the bag allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fcnet_core.command import CommandShaper
from fcnet_core.limiter import JointLimiter
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import assemble_observation
from fcnet_core.policies.fcnet.batched import SequencePolicy
from fcnet_core.policy import Policy, Walking
from fcnet_core.robot import JOINT_NAMES, Robot
from fcnet_replay.inferred_steps import TimedStates, counted_steps, lone_states
from fcnet_replay.run import RecordedRun, StepRecord, same

# Steps that a recording lacks though their states and targets are there.

Rows = npt.NDArray[np.int64]
LATE = 1.5  # usual periods between two steps; in a longer time there may have been another one


def missing_before(steps: StepRecord, target: Rows, previous: Rows) -> Rows:
    """How many steps are missing before each step (K,) that the controller told: between two steps there are as many
    targets as control cycles, however late these were. Fewer mean targets that the bag lacks, and nothing else while
    there was no time for more.

    target, previous (K,): rows, in the order of arrival, of each step's targets and of those sent before, -1 where they
    are not in the recording.
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


# What a policy does at every step that a bag holds, given what was measured and sent before.

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
LARGEST = 1e6  # [rad, rad/s] no sensor says more; a larger number is damage
MOST_STARTS = 2000  # cold starts; each costs as much as many steps


@dataclass(frozen=True)
class OpenLoop:
    """K steps. time (K,) [s], the stamps of the recorded targets; action (K, 12) [rad]: the targets that the policy
    would have sent; recorded (K, 12) [rad]: those that were; cold (K,): steps before which the memory was cleared;
    comparable (K,): whether the memory held what the recorded policy's did; lost: steps of the recording that cannot be
    replayed because a message that they saw is not in the bag; missing: steps that the recording does not tell.
    """

    time: Array
    action: Array
    recorded: Array
    cold: Mask
    comparable: Mask
    lost: int
    missing: int

    @property
    def error(self) -> Array:
        """Action less recorded target (K, 12) [rad]; NaN where that cannot be compared."""
        return np.where(self.comparable[:, None], self.action - self.recorded, np.nan)


def replay_steps(
    run: RecordedRun, steps: StepRecord, model: PolicyModel, robot: Robot, period: float, told: bool = True
) -> OpenLoop:
    """Step the policy of `model` through these steps of a run; period [s] of the control cycles; told: by the
    controller, so that some may be missing, which cannot be where they were put together.

    The memory starts cold where it did in the run, and also where steps are lost or missing: rather a cold start than a
    memory of something else. From there on targets are not compared until the recorded policy starts cold, or until
    both remember the same again.
    """
    joints = same(run.joints.stamp, steps.joints_stamp)
    imu = same(run.imu.stamp, steps.imu_stamp)
    target = same(run.targets.stamp, steps.target_stamp)
    previous = same(run.targets.stamp, steps.previous_stamp)
    known = (joints >= 0) & (imu >= 0) & (target >= 0) & (previous >= 0)
    known[known] = _usable(run, joints[known], imu[known], target[known], previous[known])
    known &= (np.abs(steps.command) < LARGEST).all(axis=1)
    missing = missing_before(steps, target, previous) if told else np.zeros(len(known), dtype=np.int64)
    broken = ~steps.cold & (np.append(True, ~known[:-1])[: len(known)] | (missing > 0))
    known &= np.cumsum((steps.cold | broken) & known) <= MOST_STARTS
    joints, imu, target, broken = joints[known], imu[known], target[known], broken[known]
    cold = steps.cold[known] | broken
    last = run.targets.position[previous[known]]
    observations = assemble_observation(
        run.imu.orientation[imu],
        run.imu.angular_velocity[imu],
        run.joints.position[joints],
        run.joints.velocity[joints],
        last,
        steps.command[known],
    )
    return OpenLoop(
        time=run.targets.stamp[target],
        action=_limited(_actions(model, observations, cold), last, robot, period),
        recorded=run.targets.position[target],
        cold=cold,
        comparable=_comparable(cold, broken, model),
        lost=int((~known).sum()),
        missing=int(missing.sum()),
    )


def _comparable(cold: Mask, broken: Mask, model: PolicyModel) -> Mask:
    """Whether the memory holds what the recorded one held: since a cold start of both, or because its window has slid
    past what came before, in the last layer too.
    """
    step = np.arange(len(cold))
    start = np.maximum.accumulate(np.where(cold, step, 0))
    comparable: Mask = ~broken[start] | (step - start >= model.card.memory) if len(start) else broken
    return comparable


def _usable(run: RecordedRun, joints: Rows, imu: Rows, target: Rows, previous: Rows) -> Mask:
    """Which steps saw and sent numbers that can be (NaN is smaller than nothing)."""
    seen = (
        run.joints.position[joints],
        run.joints.velocity[joints],
        run.imu.orientation[imu],
        run.imu.angular_velocity[imu],
        run.targets.position[target],
        run.targets.position[previous],
    )
    return np.logical_and.reduce([(np.abs(values) < LARGEST).all(axis=1) for values in seen])


def _actions(model: PolicyModel, observations: npt.NDArray[np.float32], cold: Mask) -> Array:
    policy = SequencePolicy(model)
    starts = np.union1d([0], np.flatnonzero(cold))[: len(observations)]
    parts = [policy.actions(part) for part in np.split(observations, starts[1:])]
    return np.concatenate(parts).astype(np.float64)


def _limited(action: Array, last: Array, robot: Robot, period: float) -> Array:
    """As fcnet_core/limiter.py does with each target, for all at once."""
    step = robot.safety.max_target_rate * period
    return np.clip(np.clip(action, last - step, last + step), robot.lower, robot.upper)


# What a policy would have done at each step of a recording, and how far that is from what was done.

# Which targets the policy is told it sent last: the recorded ones ("in this very situation, what would it do?") or its
# own ("left to itself with these states", which is what a live controller does).
Feedback = Literal["recorded", "own"]


@dataclass(frozen=True)
class ClosedComparison:
    """rows (K,): which rows of the states were used. action (K, 12) [rad]: the targets a controller would have sent,
    limited as it limits them. error (K, 12) [rad]: action less recorded target, NaN where none was recorded.
    """

    rows: npt.NDArray[np.int64]
    action: Array
    error: Array

    @property
    def rmse(self) -> Array:
        """Root mean square error of each joint (12,) [rad], NaN where nothing was recorded."""
        return _root(np.square(self.error))

    def summary(self) -> dict[str, Any]:
        """Figures for a report: numbers and names alone, fit for JSON."""
        compared = np.isfinite(self.error).all(axis=1)
        largest = np.abs(self.error[compared]).max(axis=0) if compared.any() else np.full(len(JOINT_NAMES), np.nan)
        return {
            "steps": len(self.rows),
            "compared": int(compared.sum()),
            "rmse_rad": _by_joint(self.rmse),
            "largest_rad": _by_joint(largest),
            "rmse_all_rad": _number(float(_root(np.square(self.error).reshape(-1, 1))[0])),
        }


def compare_closed(
    policy: Policy,
    model: PolicyModel,
    robot: Robot,
    states: TimedStates,
    target: Array,
    feedback: Feedback = "recorded",
) -> ClosedComparison:
    """Step `policy` over `states` with the controller's own code, and compare with targets (T, 12) [rad], NaN where
    unknown.

    The policy is asked at its own rate, with the newest state of each of its periods, and starts cold at every row
    marked first; the clock and the shaping of commands run along. The first target it is told it sent is the measured
    position, as in simulation. Raises fcnet_core.observation.NonFiniteObservation for states that are not finite.
    """
    rate = model.card.control_rate
    rows = states.rows_at(rate)
    recorded = target[rows]
    walking, limiter = Walking(policy, model, rate), JointLimiter(robot, 1.0 / rate)
    action = np.empty_like(recorded)
    walking.begin()
    limiter.start(states.joint_position[rows[0]])
    for step, row in enumerate(rows):
        if states.first[row] and (step == 0 or row != rows[step - 1]):
            walking.begin()
            limiter.start(states.joint_position[row])
        elif step and feedback == "recorded" and np.isfinite(recorded[step - 1]).all():
            limiter.start(recorded[step - 1])
        walking.take_command(states.setpoint[row])
        action[step] = limiter.limit(walking.targets(states.at(row), limiter.last))
    return ClosedComparison(rows, action, action - recorded)


def _root(squares: Array) -> Array:
    known = np.isfinite(squares)
    count = known.sum(axis=0)
    total = np.where(known, squares, 0.0).sum(axis=0)
    return np.sqrt(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))


def _by_joint(values: Array) -> dict[str, float | None]:
    return {joint: _number(float(value)) for joint, value in zip(JOINT_NAMES, values, strict=True)}


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return value if np.isfinite(value) else None


# One policy over one recorded run: by the steps that were recorded, or as near to them as the bag allows.

SLOWEST = 0.8  # share of the policy's rate at which targets must come to be compared with its own

# "recorded": every step as the controller took it; "counted": steps put together from targets, see counted_steps.py;
# "alone": no targets were recorded, so the policy was told its own.
Basis = Literal["recorded", "counted", "alone"]


@dataclass(frozen=True)
class PolicyReplay:
    """label: A, B, ...; name: the policy's file; unknown_phase: steps of which nobody knows the gait's phase."""

    label: str
    name: str
    model: PolicyModel
    basis: Basis
    loop: OpenLoop
    unknown_phase: int = 0

    @property
    def period(self) -> float:
        """Time [s] between its steps."""
        return 1.0 / self.model.card.control_rate


def replay_policy(
    run: RecordedRun, label: str, name: str, model: PolicyModel, robot: Robot, control_rate: float | None
) -> PolicyReplay:
    """Replay one policy; control_rate [Hz] of the controller, None where it is that of the policy."""
    period = 1.0 / (control_rate or model.card.control_rate)
    if len(run.steps.target_stamp):
        return PolicyReplay(label, name, model, "recorded", replay_steps(run, run.steps, model, robot, period))
    counted = counted_steps(run, CommandShaper(model.command_ranges, model.gait, 1.0 / model.card.control_rate))
    steps = counted.steps
    if len(steps.target_stamp) < 2 or np.median(np.diff(steps.target_stamp)) * model.card.control_rate > 1.0 / SLOWEST:
        return PolicyReplay(label, name, model, "alone", _alone(run, model, robot))
    unknown = int((~counted.phase_known).sum())
    loop = replay_steps(run, steps, model, robot, period, told=False)
    return PolicyReplay(label, name, model, "counted", loop, unknown)


def _alone(run: RecordedRun, model: PolicyModel, robot: Robot) -> OpenLoop:
    from fcnet_core.policies.registry import load_policy  # compiles, which the other ways do without

    states = lone_states(run)
    if not len(states):
        nothing = np.empty((0, len(JOINT_NAMES)))
        never = np.empty(0, dtype=np.bool_)
        return OpenLoop(np.empty(0), nothing, nothing, never, never, len(run.joints.stamp), 0)
    unknown = np.full_like(states.joint_position, np.nan)
    compared = compare_closed(load_policy(model), model, robot, states, unknown, feedback="own")
    rows = compared.rows
    never = np.zeros(len(rows), dtype=np.bool_)
    return OpenLoop(states.time[rows], compared.action, unknown[rows], states.first[rows], never, 0, 0)
