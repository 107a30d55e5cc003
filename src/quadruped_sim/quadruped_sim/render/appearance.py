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

COLORS = {
    "shell": (0.83, 0.84, 0.86),
    "dark": (0.13, 0.14, 0.16),
    "metal": (0.34, 0.36, 0.39),
    "accent": (0.05, 0.42, 0.80),
    "rubber": (0.06, 0.06, 0.07),
    "lens": (0.55, 0.85, 1.0),
}
SHINE = {"shell": 0.35, "dark": 0.3, "metal": 0.5, "accent": 0.3, "rubber": 0.05, "lens": 0.9}
SUN = np.array([-0.35, 0.45, -1.0])  # direction of its light
GROUND, GRID = (0.76, 0.78, 0.80), (0.70, 0.72, 0.75)
HAZE = (0.86, 0.91, 0.96)
LARGE = 0.012  # [m] radius of a rounding whose facets would be seen
X, Y, Z = np.eye(3)


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
    bare = ["trunk", *(f"{leg}_{part}" for leg in LEGS for part in LEG_JOINTS)] if robot.primitives else []
    for name in bare:
        for geom in spec.body(name).geoms:
            spec.delete(geom)
    for name, color in COLORS.items():
        spec.add_material(name=name, rgba=(*color, 1.0), specular=SHINE[name], shininess=0.5)
    for number, shape in enumerate(shapes(robot) if robot.primitives else ()):
        mesh = spec.add_mesh(name=f"shape{number}", uservert=_rounded(shape).ravel())
        spec.body(shape.body).add_geom(
            type=mujoco.mjtGeom.mjGEOM_MESH, meshname=mesh.name, material=shape.color, contype=0, conaffinity=0
        )
    spec.visual.global_.offwidth, spec.visual.global_.offheight = width, height
    _light(spec)
    return compiled(robot, terrain, spec)


def shapes(robot: Robot) -> Iterator[Shape]:
    """Yield all visible shapes of a robot."""
    yield from _trunk(robot)
    for leg in LEGS:
        yield from _leg(robot, leg)


def half_length(robot: Robot) -> float:
    """Return half the length [m] of the trunk including the motors at its ends."""
    return max(robot.geometry.trunk[0], 1.3 * robot.geometry.hip_x) if robot.primitives else footprint(robot)[0]


def _trunk(robot: Robot) -> Iterator[Shape]:
    size = robot.geometry
    x, y, z = half_length(robot), min(size.trunk[1], size.hip_y + 0.3 * size.abduction), size.trunk[2]
    hip, motor = size.hip_x, 0.75 * z
    profile = [(0.62 * y, -z), (y, -0.25 * z), (y, 0.2 * z), (0.72 * y, z)]
    body = [(front * 0.72 * x, left * side, up) for front in (-1, 1) for left in (-1, 1) for side, up in profile]
    yield Shape("trunk", "shell", np.array(body) * 0.97, 0.010)
    yield Shape("trunk", "dark", _box((0, 0, -0.25 * z), (0.55 * x, 0.6 * y, 0.85 * z)), 0.006)  # battery
    yield Shape("trunk", "dark", _box((0, 0, z), (0.62 * x, 0.5 * y, 0.08 * z)), 0.006)  # deck
    for left in (-1, 1):
        yield Shape("trunk", "accent", _box((0, left * y, 0), (0.42 * x, 0.008, 0.05 * z)), 0.004)
        yield Shape("trunk", "metal", _box((0, left * 0.42 * y, 1.16 * z), (0.55 * x, 0.002, 0.002)), 0.005)
    for front in (-1, 1):
        yield Shape("trunk", "dark", _box((front * 0.81 * x, 0, 0), (0.14 * x, 0.72 * y, 0.8 * z)), 0.008)
        for left in (-1, 1):  # motors of the abduction
            place = np.array([front * (hip + 0.28 * (x - hip)), left * size.hip_y, 0.0])
            yield Shape("trunk", "metal", _disc(place, X, motor, 0.66 * (x - hip)), 0.006)
            cap = np.array([front * x, left * size.hip_y, 0.0])
            yield Shape("trunk", "dark", _disc(cap, X, 0.72 * motor, 0.04 * x), 0.003)
    neck = [(0.76 * x, left * 0.72 * y, up * z) for left in (-1, 1) for up in (0.30, 1.0)]
    brow = [(1.17 * x, left * 0.60 * y, up * z) for left in (-1, 1) for up in (0.38, 0.95)]
    yield Shape("trunk", "shell", np.array(neck + brow), 0.014)  # head
    face = [(1.21 * x, left * 0.54 * y, up * z) for left in (-1, 1) for up in (0.48, 0.85)]
    yield Shape("trunk", "dark", np.array(face), 0.010)
    for left in (-1, 1):
        eye = np.array([1.235 * x, left * 0.30 * y, 0.66 * z])
        yield Shape("trunk", "lens", _disc(eye, X, 0.007, 0.004), 0.002)
    lidar = np.array([0.45 * x, 0.0, 1.34 * z])
    yield Shape("trunk", "metal", _disc(lidar, Z, 0.40 * y, 0.2 * z), 0.004)
    yield Shape("trunk", "dark", _disc(lidar + 0.4 * z * Z, Z, 0.43 * y, 0.16 * z), 0.005)


def _leg(robot: Robot, leg: str) -> Iterator[Shape]:
    size = robot.geometry
    scale, left = size.thigh / 0.25, 1.0 if leg.endswith("L") else -1.0
    side, foot, knee = left * size.abduction, np.array([0.0, 0.0, -size.calf]), np.array([0.0, 0.0, -size.thigh])
    outwards, none = left * Y, np.zeros(3)
    hip, thigh, calf = f"{leg}_hip", f"{leg}_thigh", f"{leg}_calf"
    yield Shape(hip, "dark", _disc(none, X, 0.042 * scale, 0.036 * scale), 0.006)
    yield Shape(hip, "metal", _disc(0.52 * side * Y, Y, 0.044 * scale, 0.30 * size.abduction), 0.006)
    yield Shape(thigh, "shell", _disc(none, Y, 0.050 * scale, 0.020 * scale), 0.008)
    yield Shape(thigh, "dark", _disc(0.024 * scale * outwards, Y, 0.036 * scale, 0.005), 0.003)
    yield Shape(thigh, "accent", _disc(0.029 * scale * outwards, Y, 0.018 * scale, 0.003), 0.003)
    beam = (_disc(none, Y, 0.040 * scale, 0.014 * scale), _disc(knee, Y, 0.022 * scale, 0.011 * scale))
    yield Shape(thigh, "shell", np.concatenate(beam), 0.007)
    yield Shape(thigh, "dark", _disc(knee, Y, 0.022 * scale, 0.018 * scale), 0.006)
    shin = (_disc(none, Y, 0.015 * scale, 0.007 * scale), _disc(0.9 * foot, Y, 0.006 * scale, 0.006 * scale))
    yield Shape(calf, "dark", np.concatenate(shin), 0.006)
    yield Shape(calf, "metal", np.stack([0.86 * foot, 0.93 * foot]), 0.016 * scale)
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
