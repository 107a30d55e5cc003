"""What a policy does at every step that a bag holds, given what was measured and sent before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import assemble_observation
from fcnet_core.replay.recorded_run import RecordedRun, StepRecord
from fcnet_core.robot import Robot
from fcnet_core.runtime.sequence_policy import SequencePolicy

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
LARGEST = 1e6  # [rad, rad/s] no sensor says more; a larger number is damage
MOST_STARTS = 2000  # cold starts; each costs as much as many steps
SAME_STAMP = 1e-6  # [s] stamps as doubles are good to half a microsecond


@dataclass(frozen=True)
class OpenLoop:
    """K steps. time (K,) [s], the stamps of the recorded targets; action (K, 12) [rad]: the targets that the policy
    would have sent; recorded (K, 12) [rad]: those that were; cold (K,): steps before which the memory was cleared;
    lost: steps of the recording that cannot be replayed because a message that they saw is not in the bag.
    """

    time: Array
    action: Array
    recorded: Array
    cold: npt.NDArray[np.bool_]
    lost: int

    @property
    def error(self) -> Array:
        """Action less recorded target (K, 12) [rad]."""
        return self.action - self.recorded


def replay_steps(run: RecordedRun, steps: StepRecord, model: PolicyModel, robot: Robot, period: float) -> OpenLoop:
    """Step the policy of `model` through these steps of a run; period [s] of the control cycles.

    The memory starts cold where it did in the run, and also after a step that is lost: rather a cold start than a
    memory of something else.
    """
    joints = _find(run.joints.stamp, steps.joints_stamp)
    imu = _find(run.imu.stamp, steps.imu_stamp)
    target = _find(run.targets.stamp, steps.target_stamp)
    previous = _find(run.targets.stamp, steps.previous_stamp)
    known = (joints >= 0) & (imu >= 0) & (target >= 0) & (previous >= 0)
    known[known] = _usable(run, joints[known], imu[known], target[known], previous[known])
    known &= (np.abs(steps.command) < LARGEST).all(axis=1)
    cold = steps.cold | np.append(True, ~known[:-1])[: len(known)]
    known &= np.cumsum(cold & known) <= MOST_STARTS
    joints, imu, target, cold = joints[known], imu[known], target[known], cold[known]
    last = run.targets.position[previous[known]]
    observations = assemble_observation(
        run.imu.orientation[imu],
        run.imu.angular_velocity[imu],
        run.joints.position[joints],
        run.joints.velocity[joints],
        last,
        steps.command[known],
    )
    action = _limited(_actions(model, observations, cold), last, robot, period)
    return OpenLoop(run.targets.stamp[target], action, run.targets.position[target], cold, int((~known).sum()))


def _usable(run: RecordedRun, joints: Rows, imu: Rows, target: Rows, previous: Rows) -> npt.NDArray[np.bool_]:
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


def _actions(model: PolicyModel, observations: npt.NDArray[np.float32], cold: npt.NDArray[np.bool_]) -> Array:
    policy = SequencePolicy(model)
    starts = np.union1d([0], np.flatnonzero(cold))[: len(observations)]
    parts = [policy.actions(part) for part in np.split(observations, starts[1:])]
    return np.concatenate(parts).astype(np.float64)


def _limited(action: Array, last: Array, robot: Robot, period: float) -> Array:
    """As fcnet_core/joint_limiter.py does with each target, for all at once."""
    step = robot.safety.max_target_rate * period
    return np.clip(np.clip(action, last - step, last + step), robot.lower, robot.upper)


def _find(stamps: Array, wanted: Array) -> npt.NDArray[np.int64]:
    """Where in `stamps` each wanted stamp is; -1 where it is not."""
    if not len(stamps):
        return np.full(len(wanted), -1)
    order = np.argsort(stamps, kind="stable")
    ranked = stamps[order]
    place = np.clip(np.searchsorted(ranked, wanted - SAME_STAMP), 0, len(stamps) - 1)
    return np.where(np.abs(ranked[place] - wanted) <= SAME_STAMP, order[place], -1)
