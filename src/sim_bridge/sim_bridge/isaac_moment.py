"""One step of a recording as the topics of a robot show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.recording import Recording
from fcnet_core.recording.recording import into_body, specific_force
from fcnet_core.robot import SETPOINT_FIELDS, Robot
from fcnet_core.rotation import matrix_from_xyzw, projected_gravity
from quadruped_sim.live_robot import GroundTruth, SensorReading
from quadruped_sim.simulation import stand_height

Array = npt.NDArray[np.float64]
NEARLY_STANDING = 0.5  # [rad] of every joint from the stand pose: the controller accepts a bit more
NEARLY_LEVEL = -0.9  # the downward part of gravity in the body


@dataclass(frozen=True)
class Moment:
    """What sensors and truth say in one step, the setpoint (9,) commanded and the targets (12,) decided in it."""

    reading: SensorReading
    truth: GroundTruth
    setpoint: Array
    target: Array


class RecordedMoments:
    """The rows of a recording, with the trunk's acceleration as the change of its velocity since the row before."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        change = np.diff(recording.linear_velocity, axis=0, prepend=recording.linear_velocity[:1])
        elapsed = np.diff(recording.states.time, prepend=recording.states.time[0] - recording.period)
        self._acceleration = np.where(recording.states.first[:, None], 0.0, change / elapsed[:, None])

    def __len__(self) -> int:
        return len(self._recording)

    def __getitem__(self, row: int) -> Moment:
        return moment(self._recording, row, self._acceleration[row])


def moment(recording: Recording, row: int, acceleration: Array) -> Moment:
    """Row `row` of a recording; acceleration (3,) [m/s^2] of the trunk in the world.

    No accelerometer was recorded: what one would have felt is derived. Efforts are unknown, and empty.
    """
    state = recording.states.at(row)
    world_from_body = matrix_from_xyzw(state.orientation)
    reading = SensorReading(
        joint_position=state.joint_position,
        joint_velocity=state.joint_velocity,
        joint_effort=np.empty(0),
        orientation=state.orientation,
        angular_velocity=state.angular_velocity,
        linear_acceleration=specific_force(state.orientation, acceleration),
    )
    truth = GroundTruth(
        position=recording.position[row],
        orientation=state.orientation,
        linear_velocity=into_body(world_from_body, recording.linear_velocity[row]),
        angular_velocity=state.angular_velocity,
    )
    return Moment(reading, truth, recording.states.setpoint[row], recording.target[row])


def held_moment(recording: Recording, robot: Robot) -> Moment:
    """A robot that stands still: as the recording begins where that is nearly so, else in its stand pose."""
    state = recording.states.at(0)
    near = np.abs(state.joint_position - robot.stand_pose).max() <= NEARLY_STANDING
    if not (near and projected_gravity(state.orientation)[2] <= NEARLY_LEVEL):
        return standing_moment(robot)
    return _still(state.joint_position, state.orientation, recording.position[0])


def standing_moment(robot: Robot) -> Moment:
    """A robot that stands still in its stand pose at the origin."""
    return _still(robot.stand_pose, np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.0, 0.0, stand_height(robot)]))


def _still(joint_position: Array, orientation: Array, position: Array) -> Moment:
    nothing = np.zeros(3)
    reading = SensorReading(
        joint_position=joint_position,
        joint_velocity=np.zeros_like(joint_position),
        joint_effort=np.empty(0),
        orientation=orientation,
        angular_velocity=nothing,
        linear_acceleration=specific_force(orientation, nothing),
    )
    truth = GroundTruth(position=position, orientation=orientation, linear_velocity=nothing, angular_velocity=nothing)
    return Moment(reading, truth, np.zeros(len(SETPOINT_FIELDS)), np.full(len(joint_position), np.nan))
