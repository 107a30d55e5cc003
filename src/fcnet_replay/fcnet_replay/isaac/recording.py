"""A recording: what happened to one robot, in the suite's conventions, ready to be played or compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS
from fcnet_core.rotation import matrix_from_xyzw
from fcnet_replay.recording_notes import RecordingNotes
from fcnet_replay.run import RobotState, Run, run_of_states

# A rollout as the simulator that made it saw it: its joints in its order, its velocities in the world.

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RolloutColumns:
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
    first: npt.NDArray[np.bool_]
    joint_position: Array
    joint_velocity: Array
    root_state: Array
    target: Array
    command: Array
    notes: tuple[str, ...] = ()


GRAVITY = 9.81  # [m/s^2]
UNIT_TOLERANCE = 0.1  # a quaternion whose length is further from 1 is no orientation
LONGEST_PERIOD = 0.1  # [s] a slower controller than 10 Hz does not hold a legged robot
LONGEST_GAP = (
    0.2  # [s] or one and a half periods; after a longer one nothing is known of the past, as in the controller
)


class RecordingError(ValueError):
    """A recording cannot be used; the message is one sentence that says what to do."""


@dataclass(frozen=True)
class TimedStates:
    """T states. time (T,) [s], increasing; joint_position and joint_velocity (T, 12) in JOINT_NAMES order [rad, rad/s];
    orientation (T, 4) x, y, z, w; angular_velocity (T, 3) [rad/s] in the body frame; setpoint (T, 9) in SETPOINT_FIELDS
    order; first (T,): rows at which memory must start cold, because what came before is another episode or lost.
    """

    time: Array
    joint_position: Array
    joint_velocity: Array
    orientation: Array
    angular_velocity: Array
    setpoint: Array
    first: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time)

    def at(self, row: int) -> RobotState:
        """The state in one row."""
        return RobotState(
            self.joint_position[row], self.joint_velocity[row], self.orientation[row], self.angular_velocity[row]
        )


@dataclass(frozen=True)
class Recording:
    """T control periods of one robot, `period` seconds apart.

    states: what a policy sees, joints in JOINT_NAMES order, setpoints as they were commanded. position (T, 3) [m] and
    linear_velocity (T, 3) [m/s] of the trunk in the world. target (T, 12) [rad]: the position targets decided in each
    state, NaN where unknown. notes: sentences about what the file lacked or had lost. robot: its name, or "".
    """

    robot: str
    period: float
    states: TimedStates
    position: Array
    linear_velocity: Array
    target: Array
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.states)

    @property
    def has_targets(self) -> bool:
        """Whether there is anything to compare a policy with."""
        return bool(np.isfinite(self.target).any())

    @property
    def run(self) -> Run:
        """The recording as a run, which policies replay."""
        states = self.states
        return run_of_states(
            states.time,
            RobotState(states.joint_position, states.joint_velocity, states.orientation, states.angular_velocity),
            states.setpoint,
            self.target,
            states.first,
            self.position,
            into_body(matrix_from_xyzw(states.orientation), self.linear_velocity),
            self.period,
            RecordingNotes(robot=self.robot),
            self.notes,
        )


def recording_from_columns(columns: RolloutColumns, name: str) -> Recording:
    """Bring columns into the suite's conventions; `name` is what error sentences call them.

    Joints are matched by name. Raises RecordingError for anything that no robot can have done.
    """
    _check_facts(columns, name)
    order = joint_order(columns.joint_names, name)
    root = columns.root_state
    _check_finite(columns, name)
    setpoint, unknown = _setpoints(columns)
    extra = [joint for joint in columns.joint_names if joint not in JOINT_NAMES]
    notes = list(columns.notes)
    if extra:
        notes.append(f"{name} has joints that the suite does not know and that are left out: {', '.join(extra)}")
    if unknown:
        notes.append(f"{name} has commands that the suite does not know and that are left out: {', '.join(unknown)}")
    gaps = np.diff(columns.time) > max(LONGEST_GAP, 1.5 * columns.period)
    if gaps.any():
        notes.append(f"{name} has {int(gaps.sum())} gaps in time; memory starts cold after each")
    orientation = _unit(root[:, 3:7], name)
    world_from_body = matrix_from_xyzw(orientation)
    states = TimedStates(
        time=columns.time,
        joint_position=columns.joint_position[:, order],
        joint_velocity=columns.joint_velocity[:, order],
        orientation=orientation,
        angular_velocity=into_body(world_from_body, root[:, 10:13]),
        setpoint=setpoint,
        first=columns.first | np.append(False, gaps),
    )
    return Recording(
        robot=columns.robot,
        period=columns.period,
        states=states,
        position=root[:, 0:3],
        linear_velocity=root[:, 7:10],
        target=columns.target[:, order],
        notes=tuple(notes),
    )


def joint_order(names: Sequence[str], name: str) -> list[int]:
    """Where each of JOINT_NAMES stands in `names`. Raises RecordingError when one is missing or named twice."""
    if twice := sorted({joint for joint in names if list(names).count(joint) > 1}):
        raise RecordingError(f"{name} names {', '.join(twice)} twice; each joint needs a name of its own")
    if missing := [joint for joint in JOINT_NAMES if joint not in names]:
        raise RecordingError(
            f"{name} lacks the joints {', '.join(missing)}; it names {', '.join(names) or 'none'}: "
            "give their names in the recording's order in a mapping (docs/isaac_gym.md)"
        )
    return [list(names).index(joint) for joint in JOINT_NAMES]


def into_body(world_from_body: Array, vectors: Array) -> Array:
    """Vectors (..., 3) of the world frame in the body frame of rotations (..., 3, 3)."""
    return np.einsum("...ji,...j->...i", world_from_body, vectors)


def specific_force(orientation: Array, acceleration: Array) -> Array:
    """What an accelerometer feels (..., 3) [m/s^2] in the body frame, for the trunk's orientation (..., 4) x, y, z, w
    and its acceleration (..., 3) in the world: (0, 0, 9.81) at rest.
    """
    return into_body(matrix_from_xyzw(orientation), acceleration + np.array([0.0, 0.0, GRAVITY]))


def _check_facts(columns: RolloutColumns, name: str) -> None:
    if not (math.isfinite(columns.period) and 0.0 < columns.period <= LONGEST_PERIOD):
        raise RecordingError(
            f"{name} says that a control period lasts {columns.period:g} s; it must be positive and at most "
            f"{LONGEST_PERIOD:g} s"
        )
    rows, joints, commands = len(columns.time), len(columns.joint_names), len(columns.command_names)
    if rows == 0:
        raise RecordingError(f"{name} holds no complete step; record again")
    expected = {
        "joint_position": (rows, joints),
        "joint_velocity": (rows, joints),
        "target": (rows, joints),
        "root_state": (rows, 13),
        "command": (rows, commands),
        "first": (rows,),
    }
    for field, shape in expected.items():
        if (found := getattr(columns, field).shape) != shape:
            raise RecordingError(
                f"{name} has {field} of shape {found}, expected {shape}; every array needs the same rows"
            )
    if not (np.diff(columns.time) > 0).all():
        row = int(np.argmin(np.diff(columns.time) > 0)) + 1
        raise RecordingError(f"the time of {name} does not advance at row {row}; one file holds one recording")


def _check_finite(columns: RolloutColumns, name: str) -> None:
    for field in ("time", "joint_position", "joint_velocity", "root_state", "command"):
        finite = np.isfinite(getattr(columns, field)).reshape(len(columns.time), -1).all(axis=1)
        if not finite.all():
            raise RecordingError(
                f"{name} has a {field.replace('_', ' ')} that is not finite in row {int(finite.argmin())}; "
                "the simulation had failed there: record again, or cut the file before that row"
            )


def _unit(orientation: Array, name: str) -> Array:
    length = np.linalg.norm(orientation, axis=1, keepdims=True)
    wrong = np.abs(length[:, 0] - 1.0) > UNIT_TOLERANCE
    if wrong.any():
        row = int(wrong.argmax())
        raise RecordingError(
            f"the orientation of {name} in row {row} is no unit quaternion (its length is {length[row, 0]:.3g}); "
            "columns 3 to 6 of a root state are x, y, z, w"
        )
    return orientation / length


def _setpoints(columns: RolloutColumns) -> tuple[Array, list[str]]:
    setpoint = np.zeros((len(columns.time), len(SETPOINT_FIELDS)))
    unknown = []
    for column, field in enumerate(columns.command_names):
        if field in SETPOINT_FIELDS:
            setpoint[:, SETPOINT_FIELDS.index(field)] = columns.command[:, column]
        else:
            unknown.append(field)
    return setpoint, unknown
