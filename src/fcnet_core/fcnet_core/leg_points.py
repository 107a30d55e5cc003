"""Where the legs of a robot are: the four points between which a leg is drawn."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import LEG_JOINTS, LEGS, Robot

Array = npt.NDArray[np.float64]
FRONT = np.array([1.0 if leg.startswith("F") else -1.0 for leg in LEGS])
LEFT = np.array([1.0 if leg.endswith("L") else -1.0 for leg in LEGS])


def leg_points(robot: Robot, joints: npt.ArrayLike) -> Array:
    """Hip axis, thigh axis, knee and foot centre (4 legs, 4 points, 3) [m] in the trunk's frame; legs in LEGS order.

    joints (12,) [rad] in JOINT_NAMES order.
    """
    size = robot.geometry
    hip, thigh, calf = np.asarray(joints, dtype=np.float64).reshape(len(LEGS), len(LEG_JOINTS)).T
    origin = np.stack([FRONT * size.hip_x, LEFT * size.hip_y, np.zeros(len(LEGS))], axis=-1)
    side = LEFT * size.abduction
    knee_x, knee_down = -size.thigh * np.sin(thigh), -size.thigh * np.cos(thigh)
    foot_x, foot_down = knee_x - size.calf * np.sin(thigh + calf), knee_down - size.calf * np.cos(thigh + calf)
    points = [(0.0 * hip, 0.0 * side, 0.0 * hip), (0.0 * hip, side, 0.0 * hip)]
    points += [(knee_x, side, knee_down), (foot_x, side, foot_down)]
    sine, cosine = np.sin(hip), np.cos(hip)
    turned = [np.stack([x, y * cosine - z * sine, y * sine + z * cosine], axis=-1) for x, y, z in points]
    return origin[:, None] + np.stack(turned, axis=1)


def standing_height(robot: Robot, points: Array, rotation: Array) -> float:
    """Height [m] of the trunk's centre that lets the lowest foot (or the trunk) touch the ground.

    points (4, 4, 3): of `leg_points`; rotation (3, 3): from trunk to world.
    """
    feet = (points[:, 3] @ rotation.T)[:, 2] - robot.geometry.foot_radius
    lowest_corner = -np.abs(rotation[2]) @ np.array(robot.geometry.trunk)
    return -float(min(feet.min(), lowest_corner))
