"""One run of a robot as arrays, read from a bag, an Isaac Gym recording or a simulation.

Stamps [s] are by the robot's clock, times of reception [s] by the recorder's. Records are in the order of their stamps.
Arrays of joints have the columns (J) of Run.joint_names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from fcnet_core.arrays import Array, Mask, Rows
from fcnet_core.control.timing import TIME_OF_DAY
from fcnet_core.errors import ReplayError
from fcnet_core.observation import SCALARS, SIZE, RobotState
from fcnet_core.robot import Robot
from fcnet_replay.bags.contents import Problem
from fcnet_replay.recording_notes import RecordingNotes
from fcnet_replay.times import ReceptionClock

STALE = 0.1  # [s] older states are unusable: the controller would not have walked on them
SAME_STAMP = 1e-6  # [s] stamps as doubles are good to half a microsecond


@dataclass(frozen=True)
class JointRecord:
    """N joint_states: received and stamp (N,) [s]; position, velocity, effort (N, J) [rad, rad/s, Nm], effort NaN
    if unknown.
    """

    received: Array
    stamp: Array
    position: Array
    velocity: Array
    effort: Array


@dataclass(frozen=True)
class ImuRecord:
    """N imu/data: received and stamp (N,) [s]; orientation (N, 4) x, y, z, w; angular velocity (N, 3) [rad/s] and
    linear acceleration (N, 3) [m/s^2] in the body frame, the latter NaN if unknown.
    """

    received: Array
    stamp: Array
    orientation: Array
    angular_velocity: Array
    linear_acceleration: Array


@dataclass(frozen=True)
class TargetRecord:
    """N joint_trajectory: received and stamp (N,) [s]; position (N, J) [rad], NaN for damping and unknown
    targets.
    """

    received: Array
    stamp: Array
    position: Array


@dataclass(frozen=True)
class SetpointRecord:
    """Setpoints of the controller: values (N, 9) in SETPOINT_FIELDS order, each from a time of reception (N,) [s] on;
    the first may be -inf.

    changes: returns times and values, from a cache. Called on first use, because arbitration between the commands of a
    bag takes a fifth of the time of reading, and a run with recorded steps needs no setpoints.
    """

    changes: Callable[[], tuple[Array, Array]]

    @property
    def value(self) -> Array:
        """Setpoints (N, 9)."""
        return self.changes()[1]

    def at(self, received: Array) -> Array:
        """Return the setpoints (K, 9) at K times of reception [s]."""
        time, value = self.changes()
        return value[np.searchsorted(time, received, side="right") - 1]


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

    def known(self, *names: str) -> OdometryRecord:
        """Return the messages in which these quantities are finite."""
        finite = np.logical_and.reduce([np.isfinite(getattr(self, name)).all(axis=1) for name in names])
        return OdometryRecord(*(values[finite] for values in vars(self).values()))


@dataclass(frozen=True)
class StepRecord:
    """N steps of a policy, see PolicyStep: stamps (N,) [s] of messages; cold, phase, walking (N,); setpoint (N, 9)."""

    target_stamp: Array
    previous_stamp: Array
    joints_stamp: Array
    imu_stamp: Array
    cold: Mask
    setpoint: Array
    phase: Array
    walking: Mask

    @classmethod
    def of(cls, values: Array) -> StepRecord:
        """Return the steps of PolicyStep.vector (N, SIZE)."""
        stamps, setpoint, clock = np.split(values, [len(SCALARS), SIZE - 2], axis=1)
        target, previous, joints, imu, cold = stamps.T
        return cls(target, previous, joints, imu, cold > 0.5, setpoint, clock[:, 0], clock[:, 1] > 0.5)

    def command(self, step: int) -> tuple[Array, float, bool]:
        """Return setpoint (9,), phase and walking of a step."""
        return self.setpoint[step], float(self.phase[step]), bool(self.walking[step])


@dataclass(frozen=True)
class ModeRecord:
    """N changes of the controller's mode, in the order of reception: received (N,) [s] and the modes."""

    received: Array
    modes: tuple[str, ...]


NO_ODOMETRY = OdometryRecord(*(np.empty(0),) * 2, np.empty((0, 3)), np.empty((0, 4)), *(np.empty((0, 3)),) * 2)
NO_STEPS = StepRecord.of(np.empty((0, SIZE)))
NO_MODES = ModeRecord(np.empty(0), ())


@dataclass(frozen=True)
class Run:
    """A recorded run.

    joint_names: as in the robot's file, or as recorded if the robot is unknown; period [s] of the control cycles, None
    if unknown; starts (E,) [s]: stamps of the joint states that start episodes, None if unknown; notes: of the
    recorder; problems: missing and left out data; reception: the recorder's clock.
    """

    joint_names: tuple[str, ...]
    joints: JointRecord
    imu: ImuRecord
    targets: TargetRecord
    setpoints: SetpointRecord
    odometry: OdometryRecord
    steps: StepRecord = NO_STEPS
    mode: ModeRecord = NO_MODES
    period: float | None = None
    starts: Array | None = None
    notes: RecordingNotes = field(default_factory=RecordingNotes)
    problems: tuple[Problem, ...] = ()
    reception: ReceptionClock = field(default_factory=ReceptionClock)

    def without_targets(self) -> Run:
        """Return the run with its states and commands only."""
        return replace(self, targets=TargetRecord(*(values[:0] for values in vars(self.targets).values())))

    def check_robot(self, robot: Robot) -> None:
        """Raise ReplayError if the joints are not those of the robot, in its order."""
        if self.joint_names != robot.joint_names:
            ours, theirs = ", ".join(self.joint_names), f"the robot {robot.name} has {', '.join(robot.joint_names)}"
            raise ReplayError(
                f"the run has the joints {ours}, {theirs}; read the recording with the robot's joint names"
            )

    def targets_in_effect(self, longest: float = np.inf) -> Array:
        """Return the targets (N, J) [rad] in effect at the joint states, for `longest` [s]; NaN without a target."""
        sent, time = self.targets, self.joints.stamp
        row, stamp = newest(sent.stamp, time), np.append(sent.stamp, np.nan)
        position = np.vstack([sent.position, np.full(len(self.joint_names), np.nan)])
        return np.where((time - stamp[row] <= longest)[:, None], position[row], np.nan)

    def state(self, joints: int | Rows, imu: int | Rows) -> RobotState:
        """Return the state of the robot at a row of `joints` and a row of `imu`, or the states at rows (K,) of both."""
        return RobotState(
            self.joints.position[joints],
            self.joints.velocity[joints],
            self.imu.orientation[imu],
            self.imu.angular_velocity[imu],
        )

    @property
    def simulated_time(self) -> bool:
        """Whether the robot's clock is simulated time and the recorder's the time of day: their rates differ."""
        stamp, received = self.joints.stamp, self.joints.received
        return bool(len(stamp) and stamp[-1] < TIME_OF_DAY <= received.min())

    def by_robots_clock(self, received: Array) -> Array:
        """Return times of reception (N,) by the robot's clock [s]; simulated time is interpolated between states."""
        stamp, times = self.joints.stamp, self.joints.received
        if self.simulated_time:
            order = np.argsort(times, kind="stable")
            return np.interp(received, times[order], stamp[order]).astype(np.float64)
        shifted: Array = received + (float(np.median(stamp - times)) if len(stamp) else 0.0)
        return shifted


def newest(stamps: Array, time: Array) -> Rows:
    """Return the row of the newest of `stamps` at each time, -1 before the first. Stamps may be out of order."""
    order = np.argsort(stamps, kind="stable")
    place = np.searchsorted(stamps[order], time, side="right") - 1
    return np.append(order, -1)[place]


def same(stamps: Array, wanted: Array) -> Rows:
    """Return where in increasing `stamps` each requested stamp is; -1 if it is missing."""
    if not len(stamps):
        return np.full(len(wanted), -1)
    place = np.clip(np.searchsorted(stamps, wanted - SAME_STAMP), 0, len(stamps) - 1)
    return np.where(np.abs(stamps[place] - wanted) <= SAME_STAMP, place, -1)
