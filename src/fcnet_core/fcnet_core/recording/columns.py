"""A rollout as the simulator that made it saw it: its joints in its order, its velocities in the world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
