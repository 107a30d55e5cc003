"""What a page shows of one moment: the robot's shape, commands and joints, ready to be sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_controller.state_buffer import NEVER, StateBuffer
from fcnet_core.command_arbiter import CommandArbiter
from fcnet_core.joint_command import DAMP, JointCommand
from fcnet_core.joystick_map import POSE, VELOCITY
from fcnet_core.leg_points import leg_points, standing_height
from fcnet_core.robot import JOINT_NAMES, LEGS, Robot
from fcnet_core.rotation import matrix_from_xyzw, roll_pitch_yaw

Array = npt.NDArray[np.float64]
FRESH = 0.5  # [s] for which commands, targets and places count


@dataclass(frozen=True)
class Place:
    """Where the trunk is: position (3,) [m] and orientation (4,) x, y, z, w in the world.

    velocity: forward, left [m/s], yaw rate [rad/s] in the trunk's frame.
    """

    position: Array
    orientation: Array
    velocity: tuple[float, float, float]


@dataclass
class Moment:
    """The newest of everything that moves, with the times [s] of its reception.

    obeyed (6,): velocity and pose that the controller feeds its policy.
    """

    state: StateBuffer
    commands: CommandArbiter
    place: Place | None = None
    placed: float = NEVER
    target: JointCommand = DAMP
    targeted: float = NEVER
    obeyed: Array | None = None
    told: float = NEVER


def picture(robot: Robot, moment: Moment, now: float) -> dict[str, Any]:
    """The moment as JSON's types. Points and places in metres, angles in radians, ages in seconds.

    trunk: x, y, z and the rotation's 9 numbers, row by row; legs: 4 legs of 4 points in the trunk's frame; ghost: the
    same for the targets; each null where there is none.
    """
    state, target = moment.state, _target(moment, now)
    seen = bool(np.isfinite(state.joint_position).all() and state.joints_received > NEVER)
    points = leg_points(robot, state.joint_position) if seen else None
    return {
        "t": now,
        "problem": state.problem(now) or "",
        "trunk": None if points is None else _trunk(robot, moment, points, now),
        "legs": None if points is None else _rounded(points),
        "ghost": None if target is None else _rounded(leg_points(robot, target)),
        "joints": _rounded(state.joint_position) if seen else None,
        "targets": None if target is None else _rounded(target),
        "damped": now - moment.targeted <= FRESH and moment.target.targets is None,
        "attitude": _rounded(roll_pitch_yaw(state.orientation)[:2]) if np.isfinite(state.orientation).all() else None,
        "age": None if state.received == NEVER else round(now - state.received, 4),
        "source": moment.commands.source(now),
        "wanted": _wanted(moment, now),
        "measured": _rounded(moment.place.velocity) if moment.place and now - moment.placed <= FRESH else None,
    }


def facts(robot: Robot) -> dict[str, Any]:
    """What a page has to know of the robot beforehand."""
    size = robot.geometry
    return {
        "robot": robot.name,
        "trunk": list(size.trunk),
        "foot": size.foot_radius,
        "height": robot.nominal_height,
        "legs": list(LEGS),
        "joints": list(JOINT_NAMES),
        "lower": robot.lower.tolist(),
        "upper": robot.upper.tolist(),
        "stand": robot.stand_pose.tolist(),
        "ranges": {
            field: [robot.commands[field].lowest, robot.commands[field].highest] for field in (*VELOCITY, *POSE)
        },
    }


def _target(moment: Moment, now: float) -> Array | None:
    return moment.target.targets if now - moment.targeted <= FRESH else None


def _wanted(moment: Moment, now: float) -> list[float]:
    """Velocity and pose: what the controller obeys while its policy walks, else what the sources say."""
    if moment.obeyed is not None and now - moment.told <= FRESH:
        return _rounded(moment.obeyed)
    return _rounded(moment.commands.wanted(now)[: len(VELOCITY) + len(POSE)])


def _trunk(robot: Robot, moment: Moment, points: Array, now: float) -> list[float] | None:
    """Of a robot that nobody says the place of, we know the attitude; it stands on the spot."""
    if moment.place is not None and now - moment.placed <= FRESH:
        rotation = matrix_from_xyzw(moment.place.orientation)
        return [*_rounded(moment.place.position), *_rounded(rotation.ravel())]
    length = np.linalg.norm(moment.state.orientation)
    if not 0.5 < length < 2.0:  # false for NaN
        return None
    rotation = matrix_from_xyzw(moment.state.orientation / length)
    return [0.0, 0.0, round(standing_height(robot, points, rotation), 4), *_rounded(rotation.ravel())]


def _rounded(values: npt.ArrayLike) -> list[Any]:
    return np.round(np.asarray(values, dtype=np.float64), 4).tolist()
