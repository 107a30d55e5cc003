"""What another simulator recorded of one robot, checked and brought into the suite's conventions as a Run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS
from fcnet_core.rotation import matrix_from_xyzw
from fcnet_replay.errors import ReplayError
from fcnet_replay.recording_notes import RecordingNotes
from fcnet_replay.run import RobotState, Run, run_of_states

GRAVITY = 9.81  # [m/s^2]
UNIT_TOLERANCE = 0.1  # a quaternion whose length is further from 1 is no orientation
LONGEST_PERIOD = 0.1  # [s] a slower controller than 10 Hz does not hold a legged robot
LONGEST_GAP = 0.2  # [s] or one and a half periods; after a longer one the past is unknown, as in the controller


@dataclass(frozen=True)
class Recording:
    """T control periods of one robot with n joints, in Isaac Gym's conventions.

    joint_names (n,) and command_names (c,) name the columns of joint_position, joint_velocity, target (T, n) [rad,
    rad/s, rad] and command (T, c). Row k is the state in which target k was decided; a target that is not known is
    NaN. root_state (T, 13): position [m], orientation x, y, z, w, linear [m/s] and angular velocity [rad/s], all in
    the world frame. time (T,) [s] grows by `period`; first (T,) marks rows with which an episode begins.
    """

    robot: str
    joint_names: tuple[str, ...]
    command_names: tuple[str, ...]
    period: float
    time: Array
    first: Mask
    joint_position: Array
    joint_velocity: Array
    root_state: Array
    target: Array
    command: Array
    notes: tuple[str, ...] = ()


def run_of_recording(recording: Recording, name: str) -> Run:
    """The run that was recorded; `name` is what error sentences call it.

    Joints are matched by name. The IMU's linear acceleration is what an accelerometer would have felt: the change of
    the trunk's velocity, plus gravity. Raises ReplayError for anything that no robot can have done.
    """
    _check(recording, name)
    order = joint_order(recording.joint_names, name)
    notes = list(recording.notes)
    if extra := [joint for joint in recording.joint_names if joint not in JOINT_NAMES]:
        notes.append(f"{name} has joints that the suite does not know and that are left out: {', '.join(extra)}")
    setpoint = np.zeros((len(recording.time), len(SETPOINT_FIELDS)))
    for column, command in enumerate(recording.command_names):
        if command in SETPOINT_FIELDS:
            setpoint[:, SETPOINT_FIELDS.index(command)] = recording.command[:, column]
        else:
            notes.append(f"{name} has a command that the suite does not know and that is left out: {command}")
    gaps = np.diff(recording.time) > max(LONGEST_GAP, 1.5 * recording.period)
    if gaps.any():
        notes.append(f"{name} has {int(gaps.sum())} gaps in time; memory starts cold after each")
    starts = recording.first | np.append(False, gaps)
    position, orientation, velocity, angular_velocity = np.split(recording.root_state, (3, 7, 10), axis=1)
    orientation = orientation / np.linalg.norm(orientation, axis=1, keepdims=True)
    elapsed = np.diff(recording.time, prepend=recording.time[0] - recording.period)
    acceleration = np.diff(velocity, axis=0, prepend=velocity[:1]) / elapsed[:, None]
    run = run_of_states(
        recording.time,
        RobotState(
            recording.joint_position[:, order],
            recording.joint_velocity[:, order],
            orientation,
            into_body(orientation, angular_velocity),
        ),
        setpoint,
        recording.target[:, order],
        starts,
        position,
        into_body(orientation, velocity),
        recording.period,
        RecordingNotes(robot=recording.robot),
        tuple(notes),
    )
    felt = specific_force(orientation, np.where(starts[:, None], 0.0, acceleration))
    return replace(run, imu=replace(run.imu, linear_acceleration=felt))


def joint_order(names: Sequence[str], name: str) -> list[int]:
    """Where each of JOINT_NAMES stands in `names`. Raises ReplayError when one is missing or named twice."""
    if twice := sorted({joint for joint in names if list(names).count(joint) > 1}):
        raise ReplayError(f"{name} names {', '.join(twice)} twice; each joint needs a name of its own")
    if missing := [joint for joint in JOINT_NAMES if joint not in names]:
        raise ReplayError(
            f"{name} lacks the joints {', '.join(missing)}; it names {', '.join(names) or 'none'}: "
            "give their names in the recording's order in a mapping (docs/isaac_gym.md)"
        )
    return [list(names).index(joint) for joint in JOINT_NAMES]


def into_body(orientation: Array, vectors: Array) -> Array:
    """Vectors (..., 3) of the world frame in the frame of bodies with these orientations (..., 4) x, y, z, w."""
    return np.einsum("...ji,...j->...i", matrix_from_xyzw(orientation), vectors)


def specific_force(orientation: Array, acceleration: Array) -> Array:
    """What an accelerometer feels (..., 3) [m/s^2] in the body frame, for the trunk's orientation (..., 4) x, y, z, w
    and its acceleration (..., 3) in the world: (0, 0, 9.81) at rest.
    """
    return into_body(orientation, acceleration + np.array([0.0, 0.0, GRAVITY]))


def _check(recording: Recording, name: str) -> None:
    if not (math.isfinite(recording.period) and 0.0 < recording.period <= LONGEST_PERIOD):
        raise ReplayError(
            f"{name} says that a control period lasts {recording.period:g} s; it must be positive and at most "
            f"{LONGEST_PERIOD:g} s"
        )
    rows, joints = len(recording.time), len(recording.joint_names)
    if rows == 0:
        raise ReplayError(f"{name} holds no complete step; record again")
    widths = {"joint_position": joints, "joint_velocity": joints, "root_state": 13}
    widths |= {"command": len(recording.command_names), "target": joints}
    for field, width in widths.items():
        if (shape := getattr(recording, field).shape) != (rows, width):
            raise ReplayError(f"{name} has {field} of shape {shape}, expected {(rows, width)}; all need the same rows")
    for field in ("time", "joint_position", "joint_velocity", "root_state", "command"):
        finite = np.isfinite(getattr(recording, field)).reshape(rows, -1).all(axis=1)
        if not finite.all():
            raise ReplayError(
                f"{name} has a {field.replace('_', ' ')} that is not finite in row {int(finite.argmin())}; "
                "the simulation had failed there: record again, or cut the file before that row"
            )
    if not (advances := np.diff(recording.time) > 0).all():
        row = int(advances.argmin()) + 1
        raise ReplayError(f"the time of {name} does not advance at row {row}; one file holds one recording")
    length = np.linalg.norm(recording.root_state[:, 3:7], axis=1)
    if (wrong := np.abs(length - 1.0) > UNIT_TOLERANCE).any():
        row = int(wrong.argmax())
        raise ReplayError(
            f"the orientation of {name} in row {row} is no unit quaternion (its length is {length[row]:.3g}); "
            "columns 3 to 6 of a root state are x, y, z, w"
        )
