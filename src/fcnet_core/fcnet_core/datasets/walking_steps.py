"""The steps that a policy took in a recorded run: what it saw and what was sent, checked, with the cuts between."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fcnet_core.command import CommandShaper
from fcnet_core.dataset import DatasetError
from fcnet_core.observation import assemble_observation
from fcnet_core.replay.counted_steps import counted_steps
from fcnet_core.replay.missing_steps import missing_before
from fcnet_core.replay.open_loop import LARGEST
from fcnet_core.replay.recorded_run import RecordedRun, StepRecord
from fcnet_core.replay.stamps import same
from fcnet_core.robot import Robot

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

GAP = 2.5  # periods between two states: longer, and what the policy would see is not one motion
OTHER_RATE = 0.2  # share by which the pace of steps may differ from the wanted one
LIMIT_SLACK = 1e-3  # [rad] beyond a limit; targets are sent as doubles and limits are exact
OTHER_ROBOT = 0.1  # share of targets beyond the limits from which on the robot is the wrong one
UNKNOWN_BEGINNING = "the bag does not hold the beginning of that walk, so the gait's phase is unknown"
UNKNOWN_PHASE = "targets are missing, so the gait's phase is unknown until the next walk"
UNIT = 0.05  # by which the length of an orientation may differ from 1


@dataclass(frozen=True)
class WalkingSteps:
    """K steps, in order. time (K,) [s]: stamp of the targets; state_time (K,) [s]: of the joint state seen; received
    (K,) [s]: when the bag's recorder had the targets; joints (K, 12) [rad, rad/s], orientation (K, 4) x, y, z, w,
    angular_velocity (K, 3) [rad/s], command (K, 16); last_action and target (K, 12) [rad]; begins (K,): steps that do
    not continue the one before; left_out: reason -> number of steps.

    basis: "recorded" where the controller told its steps, "counted" where they were put together, see
    replay/counted_steps.py.
    """

    basis: Literal["recorded", "counted"]
    time: Array
    state_time: Array
    received: Array
    joint_position: Array
    joint_velocity: Array
    orientation: Array
    angular_velocity: Array
    last_action: Array
    command: Array
    target: Array
    begins: Mask
    left_out: Counter[str]

    def __len__(self) -> int:
        return len(self.time)

    def observation(self, rows: slice = slice(None)) -> npt.NDArray[np.float32]:
        """What the policy saw (K, 70)."""
        return assemble_observation(
            self.orientation[rows],
            self.angular_velocity[rows],
            self.joint_position[rows],
            self.joint_velocity[rows],
            self.last_action[rows],
            self.command[rows],
        )


def walking_steps(run: RecordedRun, robot: Robot, rate: float, bag: str) -> WalkingSteps:
    """The steps of a policy of `rate` [Hz] in a run; bag: its name, for errors.

    Raises DatasetError when the run is of another robot or another rate.
    """
    left_out: Counter[str] = Counter()
    recorded = len(run.steps.target_stamp) > 0
    steps = run.steps if recorded else _counted(run, robot, rate, left_out)
    _check_rate(steps, rate, bag)
    joints, imu = same(run.joints.stamp, steps.joints_stamp), same(run.imu.stamp, steps.imu_stamp)
    target, previous = same(run.targets.stamp, steps.target_stamp), same(run.targets.stamp, steps.previous_stamp)
    known = (joints >= 0) & (imu >= 0) & (target >= 0) & (previous >= 0)
    sound = known.copy()
    sound[known] = _sound(run, joints[known], imu[known], target[known], previous[known])
    sound &= (np.abs(steps.command) < LARGEST).all(axis=1)
    within = sound.copy()
    within[sound] = _within_limits(run.targets.position[target[sound]], robot, bag)
    left_out["what the policy saw or sent is not in the bag"] += int((~known).sum())
    left_out["a value is not a number or cannot be"] += int((known & ~sound).sum())
    left_out["a target lies beyond the joint limits"] += int((sound & ~within).sum())
    begins = _begins(steps, rate) | np.append(True, ~within[:-1])[: len(within)]
    if recorded:
        begins |= missing_before(steps, target, previous) > 0
    keep = np.flatnonzero(within)
    joints, imu, target, previous = joints[keep], imu[keep], target[keep], previous[keep]
    return WalkingSteps(
        "recorded" if recorded else "counted",
        run.targets.stamp[target],
        run.joints.stamp[joints],
        run.targets.received[target],
        run.joints.position[joints],
        run.joints.velocity[joints],
        run.imu.orientation[imu],
        run.imu.angular_velocity[imu],
        run.targets.position[previous],
        steps.command[keep],
        run.targets.position[target],
        begins[keep],
        left_out,
    )


def _counted(run: RecordedRun, robot: Robot, rate: float, left_out: Counter[str]) -> StepRecord:
    """Steps that were put together, of those walks alone of which the gait's phase is known."""
    counted = counted_steps(run, CommandShaper(robot.commands, robot.gait, 1.0 / rate))
    left_out[UNKNOWN_BEGINNING] += int((~counted.begun).sum())
    left_out[UNKNOWN_PHASE] += int((counted.begun & ~counted.whole).sum())
    return StepRecord(**{name: values[counted.phase_known] for name, values in vars(counted.steps).items()})


def _check_rate(steps: StepRecord, rate: float, bag: str) -> None:
    if len(steps.target_stamp) < 3:
        return
    found = 1.0 / max(float(np.median(np.diff(steps.target_stamp))), 1e-6)
    if abs(found / rate - 1.0) > OTHER_RATE:
        raise DatasetError(f"the policy of {bag} took {found:.4g} steps a second, not {rate:g}; name that with --rate")


def _sound(run: RecordedRun, joints: Rows, imu: Rows, target: Rows, previous: Rows) -> Mask:
    """Which steps saw and sent numbers that can be (NaN is smaller than nothing)."""
    seen = (
        run.joints.position[joints],
        run.joints.velocity[joints],
        run.imu.angular_velocity[imu],
        run.targets.position[target],
        run.targets.position[previous],
    )
    length = np.linalg.norm(run.imu.orientation[imu], axis=1)
    numbers = np.column_stack([(np.abs(values) < LARGEST).all(axis=1) for values in seen])
    sound: Mask = numbers.all(axis=1) & (np.abs(length - 1.0) < UNIT)
    return sound


def _within_limits(target: Array, robot: Robot, bag: str) -> Mask:
    beyond = (target < robot.lower - LIMIT_SLACK) | (target > robot.upper + LIMIT_SLACK)
    within: Mask = np.logical_not(beyond.any(axis=1))
    if len(within) and (~within).mean() > OTHER_ROBOT:
        raise DatasetError(
            f"{(~within).mean():.0%} of the targets in {bag} lie beyond the joint limits of {robot.name}: "
            "it is a bag of another robot; name the right one with --robot"
        )
    return within


def _begins(steps: StepRecord, rate: float) -> Mask:
    """Steps after a cold start or a gap."""
    if not len(steps.cold):
        return steps.cold
    gap = np.abs(np.diff(steps.joints_stamp)) * rate > GAP
    backward = np.diff(steps.target_stamp) <= 0
    begins: Mask = steps.cold | np.append(True, gap | backward)
    return begins
