"""Appearance of a robot and its ground: a MuJoCo model for display only, made from the robot's file.

It has the joints of physics/mjcf.py and none of its shapes, which stay bare for speed; it is posed and never stepped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import mujoco
import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import LEG_JOINTS, LEGS, Robot
from quadruped_sim.physics.mjcf import compiled, footprint, robot_spec
from quadruped_sim.physics.terrain import Terrain

MATERIALS = {  # color and shine
    "shell": ((0.83, 0.84, 0.86), 0.35),
    "dark": ((0.13, 0.14, 0.16), 0.3),
    "metal": ((0.34, 0.36, 0.39), 0.5),
    "accent": ((0.05, 0.42, 0.80), 0.3),
    "rubber": ((0.06, 0.06, 0.07), 0.05),
}
SUN = np.array([-0.35, 0.45, -1.0])  # direction of its light
GROUND, GRID = (0.76, 0.78, 0.80), (0.70, 0.72, 0.75)
HAZE = (0.86, 0.91, 0.96)
LARGE = 0.012  # [m] radius of a rounding whose facets would be seen
X, Y, _ = np.eye(3)


@dataclass(frozen=True)
class Shape:
    """The convex hull of points (N, 3) [m] in the frame of `body`, rounded by a sphere of `radius` [m]."""

    body: str
    color: str
    points: Array
    radius: float


def display_model(robot: Robot, terrain: Terrain, width: int, height: int) -> mujoco.MjModel:
    """Return the model to pose for pictures of width x height pixels, with the joints of the physics.

    A robot with a body file has the shapes of that file.
    """
    spec = robot_spec(robot, terrain, timestep=0.004)
    if robot.primitives:
        for name in ("trunk", *(f"{leg}_{part}" for leg in LEGS for part in LEG_JOINTS)):
            for geom in spec.body(name).geoms:
                spec.delete(geom)
    for name, (color, shine) in MATERIALS.items():
        spec.add_material(name=name, rgba=(*color, 1.0), specular=shine, shininess=0.5)
    for number, shape in enumerate(shapes(robot) if robot.primitives else ()):
        mesh = spec.add_mesh(name=f"shape{number}", uservert=_rounded(shape).ravel())
        spec.body(shape.body).add_geom(
            type=mujoco.mjtGeom.mjGEOM_MESH, meshname=mesh.name, material=shape.color, contype=0, conaffinity=0
        )
    spec.visual.global_.offwidth, spec.visual.global_.offheight = width, height
    _light(spec)
    return compiled(robot, terrain, spec)


def half_length(robot: Robot) -> float:
    """Return half the length [m] of the trunk including the motors at its ends."""
    return max(robot.geometry.trunk[0], 1.3 * robot.geometry.hip_x) if robot.primitives else footprint(robot)[0]


def shapes(robot: Robot) -> Iterator[Shape]:
    """Yield all visible shapes of a robot."""
    size, scale = robot.geometry, robot.geometry.thigh / 0.25
    x, y, z = half_length(robot), min(size.trunk[1], size.hip_y + 0.3 * size.abduction), size.trunk[2]
    profile = [(0.62 * y, -z), (y, -0.25 * z), (y, 0.2 * z), (0.72 * y, z)]
    body = [(end * 0.72 * x, left * side, up) for end in (-1, 1) for left in (-1, 1) for side, up in profile]
    yield Shape("trunk", "shell", np.array(body) * 0.97, 0.010)
    yield Shape("trunk", "dark", _box((0, 0, -0.25 * z), (0.55 * x, 0.6 * y, 0.85 * z)), 0.006)  # battery
    yield Shape("trunk", "dark", _box((0, 0, z), (0.62 * x, 0.5 * y, 0.08 * z)), 0.006)  # deck
    for end in (-1, 1):
        yield Shape("trunk", "dark", _box((end * 0.81 * x, 0, 0), (0.14 * x, 0.72 * y, 0.8 * z)), 0.008)
    head = [(0.76, 0.72, 0.30), (0.76, 0.72, 1.0), (1.17, 0.60, 0.38), (1.17, 0.60, 0.95)]
    face = [(1.21, 0.54, 0.48), (1.21, 0.54, 0.85)]
    for color, corners, rounding in (("shell", head, 0.014), ("accent", face, 0.010)):
        points = [(ahead * x, left * side * y, up * z) for ahead, side, up in corners for left in (-1, 1)]
        yield Shape("trunk", color, np.array(points), rounding)
    knee, foot = np.array([0.0, 0.0, -size.thigh]), np.array([0.0, 0.0, -size.calf])
    for leg in LEGS:
        front, left = (1 if leg.startswith("F") else -1), (1 if leg.endswith("L") else -1)
        motor = np.array([front * (size.hip_x + 0.28 * (x - size.hip_x)), left * size.hip_y, 0.0])
        yield Shape("trunk", "metal", _disc(motor, X, 0.75 * z, 0.66 * (x - size.hip_x)), 0.006)
        hip, thigh, calf = f"{leg}_hip", f"{leg}_thigh", f"{leg}_calf"
        yield Shape(hip, "dark", _disc(np.zeros(3), X, 0.042 * scale, 0.036 * scale), 0.006)
        middle = 0.52 * left * size.abduction * Y
        yield Shape(hip, "metal", _disc(middle, Y, 0.044 * scale, 0.30 * size.abduction), 0.006)
        yield Shape(thigh, "shell", _disc(np.zeros(3), Y, 0.050 * scale, 0.020 * scale), 0.008)
        yield Shape(thigh, "accent", _disc(0.026 * scale * left * Y, Y, 0.030 * scale, 0.005), 0.003)
        beam = _disc(np.zeros(3), Y, 0.040 * scale, 0.014 * scale), _disc(knee, Y, 0.022 * scale, 0.011 * scale)
        yield Shape(thigh, "shell", np.concatenate(beam), 0.007)
        yield Shape(thigh, "dark", _disc(knee, Y, 0.022 * scale, 0.018 * scale), 0.006)
        shin = _disc(np.zeros(3), Y, 0.015 * scale, 0.007 * scale), _disc(0.9 * foot, Y, 0.006 * scale, 0.006 * scale)
        yield Shape(calf, "dark", np.concatenate(shin), 0.006)
        yield Shape(calf, "rubber", foot[None], size.foot_radius)


def _box(centre: tuple[float, float, float], half: tuple[float, float, float]) -> Array:
    signs = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    return np.array(centre) + signs * half


def _disc(centre: Array, axis: Array, radius: float, half: float) -> Array:
    """Return two rings around `axis`, `half` [m] before and behind the centre."""
    first = np.cross(axis, np.roll(axis, 1))
    angle = np.linspace(0.0, 2 * np.pi, 32, endpoint=False)[:, None]
    ring = radius * (np.cos(angle) * first + np.sin(angle) * np.cross(axis, first))
    return centre + np.concatenate([ring + half * axis, ring - half * axis])


def _rounded(shape: Shape) -> Array:
    """Return points whose hull is the shape: a sphere around each of its points, finer if it is large."""
    sides = 12 if shape.radius < LARGE else 32
    azimuth = np.linspace(0, 2 * np.pi, sides, endpoint=False)
    elevation = np.linspace(-np.pi / 2, np.pi / 2, sides // 2 + 1)[:, None]
    parts = np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation) + 0 * azimuth
    return (shape.points[:, None] + shape.radius * np.stack(parts, axis=-1).reshape(-1, 3)).reshape(-1, 3)


def _light(spec: mujoco.MjSpec) -> None:
    """Set sun, sky, haze and ground."""
    visual = spec.visual
    visual.quality.shadowsize, visual.quality.offsamples = 2048, 0
    visual.headlight.ambient, visual.headlight.diffuse, visual.headlight.specular = [[v] * 3 for v in (0.42, 0.12, 0.0)]
    visual.rgba.haze = visual.rgba.fog = (*HAZE, 1.0)
    visual.map.fogstart, visual.map.fogend = 0.25, 1.0  # of 10 m
    visual.map.shadowclip = 0.13
    spec.stat.extent = 10.0
    spec.material("ground").texrepeat = 1.0, 1.0
    for texture in spec.textures:
        texture.rgb1, texture.rgb2 = (GROUND, GRID) if texture.name == "ground" else (HAZE, HAZE)
    sun = spec.worldbody.lights[0]
    sun.castshadow, sun.dir, sun.diffuse, sun.specular = True, SUN / np.linalg.norm(SUN), [0.62] * 3, [0.25] * 3
