"""Start of a robot on a terrain."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import Robot
from fcnet_core.rotation import product
from quadruped_sim.physics.terrain import Terrain

StartPose = Literal["lying", "standing", "on_back"]
# Where every terrain has ground around a robot: x, y [m] and heading [rad].
PLACES = {"x": (-7.0, 12.0), "y": (-7.0, 7.0), "heading": (-3.1416, 3.1416)}
CLEARANCE = 0.01  # [m] above the ground


@dataclass(frozen=True)
class Place:
    """Position of the trunk's centre, x and y [m], and heading [rad] in the world."""

    x: float = 0.0
    y: float = 0.0
    heading: float = 0.0


def trunk_above(robot: Robot, terrain: Terrain, place: Place, height: float) -> Array:
    """Return position [m] and orientation w, x, y, z of the trunk (7,), level with the ground around a place: `height`
    [m] above the plane that fits the ground best, raised by its highest bump.
    """
    reach = robot.geometry.hip_x + robot.geometry.thigh if robot.primitives else robot.nominal_height
    x, y = (axis.ravel() for axis in np.meshgrid(*2 * [np.linspace(-reach, reach, 13)]))
    ground = terrain.height(place.x + x, place.y + y)
    plane = np.linalg.lstsq(np.stack([x, y, np.ones_like(x)], axis=-1), ground, rcond=None)[0]
    normal = np.array([-plane[0], -plane[1], 1.0])
    length = float(np.linalg.norm(normal))
    bump = float((ground - plane[0] * x - plane[1] * y - plane[2]).max())
    tilt = np.array([-normal[1], normal[0], 0.0, length + 1.0])  # from the vertical to the normal
    turn = np.array([0.0, 0.0, np.sin(place.heading / 2), np.cos(place.heading / 2)])
    orientation = product(tilt / np.linalg.norm(tilt), turn)
    return np.array([place.x, place.y, plane[2] + bump + (height + CLEARANCE) * length, *orientation[[3, 0, 1, 2]]])
