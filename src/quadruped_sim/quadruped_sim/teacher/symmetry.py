"""The mirror image, left for right, of a teacher's observations and actions.

PPO learns one side better than the other: a robot then falls under commands whose mirror images it manages. A teacher
therefore acts as the mean of its network's action and of the mirrored action for the mirrored robot.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fcnet_core.observation import ACTION_SIZE, PARTS
from fcnet_core.robot import LEG_JOINTS, LEGS, SETPOINT_FIELDS
from quadruped_sim.teacher.privileged import TEACHER_PARTS

OTHER_LEG = np.array([LEGS.index(leg[0] + {"R": "L", "L": "R"}[leg[1]]) for leg in LEGS])
OTHER_JOINT = (len(LEG_JOINTS) * OTHER_LEG[:, None] + np.arange(len(LEG_JOINTS))).reshape(-1)
JOINT_SIGN = np.tile([-1.0, 1.0, 1.0], len(LEGS))  # hips turn about the axis that points forward
VECTOR_SIGN = np.array([1.0, -1.0, 1.0])  # of velocities, forces and places
ROTATION_SIGN = -VECTOR_SIGN  # of angular velocities
SIDEWAYS_FIELDS = ("vy", "yaw_rate", "roll")  # of SETPOINT_FIELDS
Permutation = tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]  # source index and sign of each element


def _command() -> Permutation:
    """Return the mirror image of the command: diagonal pairs of legs swap: the phase moves by half a stride."""
    sign = np.ones(PARTS["command"])
    sign[[SETPOINT_FIELDS.index(field) for field in SIDEWAYS_FIELDS]] = -1.0
    sign[8:10] = -1.0  # sine and cosine of the phase
    return np.arange(len(sign)), sign


def _signs(sign: npt.NDArray[np.float64]) -> Permutation:
    return np.arange(len(sign)), sign


JOINTS = (OTHER_JOINT, JOINT_SIGN)
MIRRORED: Mapping[str, Permutation] = {  # parts that are not their own mirror image
    "projected_gravity": _signs(VECTOR_SIGN),
    "joint_velocity": JOINTS,
    "sin_joint_position": JOINTS,
    "cos_joint_position": (OTHER_JOINT, np.ones(ACTION_SIZE)),
    "angular_velocity": _signs(ROTATION_SIGN),
    "last_action": JOINTS,
    "command": _command(),
    "previous_action": JOINTS,
    "linear_velocity": _signs(VECTOR_SIGN),
    "contact": (OTHER_LEG, np.ones(len(LEGS))),
    "com": _signs(VECTOR_SIGN),
}


def _permutation(parts: Mapping[str, int]) -> Permutation:
    sources, signs, start = [], [], 0
    for name, size in parts.items():
        source, sign = MIRRORED.get(name, _signs(np.ones(size)))
        sources.append(start + source)
        signs.append(sign)
        start += size
    return np.concatenate(sources), np.concatenate(signs)


OBSERVATION = _permutation(PARTS | {name: size for name, size in TEACHER_PARTS.items() if name != "observation"})
ACTION = JOINTS


def mirrored(values: npt.NDArray[np.floating], permutation: Permutation) -> npt.NDArray[np.floating]:
    """Mirror the teacher's observations (..., TEACHER_SIZE) or actions (..., 12)."""
    source, sign = permutation
    return values[..., source] * sign.astype(values.dtype)
