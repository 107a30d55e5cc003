"""Where on a terrain a robot begins."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import Robot
from quadruped_sim.physics.terrain import Terrain

CLEARANCE = 0.01  # [m] above the ground


@dataclass(frozen=True)
class Place:
    """Where the trunk's centre is, x and y [m], and where it heads [rad], in the world."""

    x: float = 0.0
    y: float = 0.0
    heading: float = 0.0


def trunk_above(robot: Robot, terrain: Terrain, place: Place, height: float) -> Array:
    """Position [m] and orientation w, x, y, z of the trunk (7,), level with the ground around a place: `height` [m]
    above the plane that fits the ground best, raised by its highest bump.
    """
    reach = robot.geometry.hip_x + robot.geometry.thigh
    x, y = (axis.ravel() for axis in np.meshgrid(*2 * [np.linspace(-reach, reach, 13)]))
    ground = terrain.height(place.x + x, place.y + y)
    plane = np.linalg.lstsq(np.stack([x, y, np.ones_like(x)], axis=-1), ground, rcond=None)[0]
    normal = np.array([-plane[0], -plane[1], 1.0])
    length = float(np.linalg.norm(normal))
    bump = float((ground - plane[0] * x - plane[1] * y - plane[2]).max())
    tilt, turn, orientation = np.empty(4), np.empty(4), np.empty(4)
    mujoco.mju_quatZ2Vec(tilt, normal / length)
    mujoco.mju_axisAngle2Quat(turn, np.array([0.0, 0.0, 1.0]), place.heading)
    mujoco.mju_mulQuat(orientation, tilt, turn)
    return np.array([place.x, place.y, plane[2] + bump + (height + CLEARANCE) * length, *orientation])
