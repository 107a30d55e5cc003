"""Appearance of a robot and its ground: the MuJoCo model of the physics with colors and light; it is never stepped."""

from __future__ import annotations

import mujoco
import numpy as np

from fcnet_core.robot import Robot
from quadruped_sim.physics.mjcf import compiled, robot_spec
from quadruped_sim.physics.terrain import Terrain

MATERIALS = {  # color and shine
    "shell": ((0.83, 0.84, 0.86), 0.35),
    "dark": ((0.13, 0.14, 0.16), 0.3),
    "rubber": ((0.06, 0.06, 0.07), 0.05),
}
SUN = np.array([-0.35, 0.45, -1.0])  # direction of its light
GROUND, GRID = (0.76, 0.78, 0.80), (0.70, 0.72, 0.75)
HAZE = (0.86, 0.91, 0.96)


def display_model(robot: Robot, terrain: Terrain, width: int, height: int) -> mujoco.MjModel:
    """Return the model to pose for pictures of width x height pixels, with the joints and shapes of the physics."""
    spec = robot_spec(robot, terrain, timestep=0.004)
    for name, (color, shine) in MATERIALS.items():
        spec.add_material(name=name, rgba=(*color, 1.0), specular=shine, shininess=0.5)
    for body in spec.bodies[1:] if robot.primitives else ():  # a body file has its own colors
        for geom in body.geoms:
            geom.material = "dark" if body.name.endswith(("hip", "calf")) else "shell"
            if geom.type == mujoco.mjtGeom.mjGEOM_SPHERE:
                geom.material = "rubber"
    spec.visual.global_.offwidth, spec.visual.global_.offheight = width, height
    _light(spec)
    return compiled(robot, terrain, spec)


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
