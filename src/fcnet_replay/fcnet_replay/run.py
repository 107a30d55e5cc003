"""One recorded run of a robot as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Finds messages of a recording by their time.

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
SAME_STAMP = 1e-6  # [s] stamps as doubles are good to half a microsecond


def newest(stamps: Array, time: Array) -> Rows:
    """Which of `stamps` is the newest at each time; -1 before the first. Out of order, the newest is the largest."""
    order = np.argsort(stamps, kind="stable")
    place = np.searchsorted(stamps[order], time, side="right") - 1
    return np.where(place >= 0, order[place], -1)


def same(stamps: Array, wanted: Array) -> Rows:
    """Where in `stamps` each wanted stamp is; -1 where it is not."""
    if not len(stamps):
        return np.full(len(wanted), -1)
    order = np.argsort(stamps, kind="stable")
    ranked = stamps[order]
    place = np.clip(np.searchsorted(ranked, wanted - SAME_STAMP), 0, len(stamps) - 1)
    return np.where(np.abs(ranked[place] - wanted) <= SAME_STAMP, order[place], -1)


# What a bag tells about one run of a robot, as arrays.

@dataclass(frozen=True)
class JointRecord:
    """N joint_states: received and stamp (N,) [s]; position, velocity, effort (N, 12) in JOINT_NAMES order [rad, rad/s,
    Nm], effort NaN where it was not told.
    """

    received: Array
    stamp: Array
    position: Array
    velocity: Array
    effort: Array


@dataclass(frozen=True)
class ImuRecord:
    """N imu/data: received and stamp (N,) [s]; orientation (N, 4) x, y, z, w; angular velocity (N, 3) [rad/s] and
    linear acceleration (N, 3) [m/s^2] in the body frame.
    """

    received: Array
    stamp: Array
    orientation: Array
    angular_velocity: Array
    linear_acceleration: Array


@dataclass(frozen=True)
class TargetRecord:
    """N joint_trajectory: received and stamp (N,) [s]; position (N, 12) [rad], NaN where joints were to be damped."""

    received: Array
    stamp: Array
    position: Array


@dataclass(frozen=True)
class StepRecord:
    """N steps of the policy, see fcnet_core/observation.py: stamps (N,) [s], cold (N,), command (N, 16)."""

    target_stamp: Array
    previous_stamp: Array
    joints_stamp: Array
    imu_stamp: Array
    cold: npt.NDArray[np.bool_]
    command: Array


@dataclass(frozen=True)
class VelocityRecord:
    """N commanded velocities: received (N,) [s]; velocity (N, 3): forward, sideways [m/s], yaw rate [rad/s]."""

    received: Array
    velocity: Array


@dataclass(frozen=True)
class PoseRecord:
    """N commanded poses: received (N,) [s]; height offset (N,) [m]; orientation (N, 4) x, y, z, w, to the heading."""

    received: Array
    height: Array
    orientation: Array


@dataclass(frozen=True)
class CommandRecord:
    """What one of the sources in config/remote.yaml has said."""

    source: str
    velocity: VelocityRecord
    pose: PoseRecord


@dataclass(frozen=True)
class OdometryRecord:
    """N odom: received and stamp (N,) [s]; position (N, 3) [m] and orientation (N, 4) x, y, z, w in the world frame;
    velocity (N, 3) [m/s] and angular velocity (N, 3) [rad/s] in the body frame.
    """

    received: Array
    stamp: Array
    position: Array
    orientation: Array
    velocity: Array
    angular_velocity: Array


@dataclass(frozen=True)
class ModeRecord:
    """N changes of the controller's mode: received (N,) [s] and the modes."""

    received: Array
    modes: tuple[str, ...]


@dataclass(frozen=True)
class CycleRecord:
    """What the controller said about itself N times: received (N,) [s], and how many cycles it had run until then."""

    received: Array
    cycles: npt.NDArray[np.int64]


@dataclass(frozen=True)
class RecordedRun:
    """Everything a replay uses. commands: of every source, the most important first; problems: sentences about what is
    missing or left out; custom: the recorder's notes.
    """

    joints: JointRecord
    imu: ImuRecord
    targets: TargetRecord
    steps: StepRecord
    commands: tuple[CommandRecord, ...]
    odometry: OdometryRecord
    mode: ModeRecord
    cycles: CycleRecord
    problems: tuple[str, ...]
    custom: dict[str, str]
