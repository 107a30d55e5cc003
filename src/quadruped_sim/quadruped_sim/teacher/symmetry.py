"""The mirror image, left for right, of a teacher's observations and actions.

PPO learns one side better than the other: a robot then falls under commands whose mirror images it manages. A teacher
therefore acts as the mean of its network's action and of the mirrored action for the mirrored robot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.observation import PolicyInterface
from fcnet_core.observation.terms import (
    AngularVelocity,
    Clock,
    Command,
    JointPosition,
    JointVelocity,
    LastAction,
    LinearVelocity,
    ProjectedGravity,
    Term,
)
from fcnet_core.robot import LEG_JOINTS, LEGS, Robot

OTHER_LEG = np.array([LEGS.index(leg[0] + {"R": "L", "L": "R"}[leg[1]]) for leg in LEGS])
JOINT_SIGN = np.array([-1.0, 1.0, 1.0])  # of LEG_JOINTS: hips turn about the axis that points forward
VECTOR_SIGN = np.array([1.0, -1.0, 1.0])  # of velocities, forces and places
ROTATION_SIGN = -VECTOR_SIGN  # of angular velocities
SIDEWAYS_FIELDS = ("vy", "yaw_rate", "roll")  # of SETPOINT_FIELDS
CLOCK_SIGN = np.array([-1.0, -1.0, 1.0])  # diagonal pairs of legs swap: the phase moves by half a stride
Permutation = tuple[npt.NDArray[np.intp], npt.NDArray[np.floating]]  # source index and sign of each element


def action_mirror(robot: Robot) -> Permutation:
    """Return the mirror image of joints (N,). Robots with joints that are not of legs are their own mirror image."""
    source, sign = np.arange(len(robot.joints)), np.ones(len(robot.joints), dtype=np.float32)
    if robot.legs and len(robot.joints) == len(LEGS) * len(LEG_JOINTS):
        source[robot.leg_rows], sign[robot.leg_rows] = robot.leg_rows[OTHER_LEG], JOINT_SIGN
    return source, sign


def observation_mirror(interface: PolicyInterface, robot: Robot) -> Permutation:
    """Return the mirror image of an interface's observation, whose joints are the robot's. Signals of a task count as
    their own mirror images.
    """
    parts = [
        _mirror(term, interface.size(term), robot) for _, term in interface.blocks(interface.inputs["observation"])
    ]
    starts = np.cumsum([0, *(len(sign) for _, sign in parts)])
    sources = [start + source for start, (source, _) in zip(starts, parts, strict=False)]
    return np.concatenate(sources), np.concatenate([sign for _, sign in parts], dtype=np.float32)


def _mirror(term: Term, size: int, robot: Robot) -> Permutation:
    joints, sign = action_mirror(robot)
    same = np.arange(size)
    if (joints == np.arange(len(joints))).all():
        return same, np.ones(size)
    match term:
        case JointPosition(form="cos"):
            return joints, np.ones(size)
        case JointPosition() | JointVelocity() | LastAction():
            return joints, sign
        case ProjectedGravity() | LinearVelocity():
            return same, VECTOR_SIGN
        case AngularVelocity():
            return same, ROTATION_SIGN
        case Command():
            return same, np.array([-1.0 if field in SIDEWAYS_FIELDS else 1.0 for field in term.fields])
        case Clock(form="gait"):
            return same, CLOCK_SIGN
    if term.part == "com":
        return same, VECTOR_SIGN
    return (OTHER_LEG if term.part == "foot_contact" else same), np.ones(size)


def mirrored(values: Any, permutation: tuple[Any, Any]) -> Any:
    """Mirror observations or actions (..., n), an array or a tensor with a permutation of tensors."""
    source, sign = permutation
    return values[..., source] * sign
