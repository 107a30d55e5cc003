"""What a policy does at every step that a bag holds, given what was measured and sent before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import assemble_observation
from fcnet_core.replay.missing_steps import missing_before
from fcnet_core.replay.recorded_run import RecordedRun, StepRecord
from fcnet_core.replay.stamps import same
from fcnet_core.robot import Robot
from fcnet_core.runtime.sequence_policy import SequencePolicy

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
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
    """As fcnet_core/joint_limiter.py does with each target, for all at once."""
    step = robot.safety.max_target_rate * period
    return np.clip(np.clip(action, last - step, last + step), robot.lower, robot.upper)
