"""Draws a trajectory with MuJoCo's renderer, off the screen, from a camera that follows the robot: the model of the
physics with colors and light.
"""

import importlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.errors import SimulationError
from fcnet_core.robot import Robot
from fcnet_core.rotation import roll_pitch_yaw
from quadruped_sim.physics.body import Body
from quadruped_sim.physics.mjcf import compiled, footprint, robot_spec
from quadruped_sim.physics.terrain import Terrain
from quadruped_sim.render.trajectory import Trajectory, averaged

Picture = npt.NDArray[np.uint8]
MESA = "install PyOpenGL (pip install pyopengl) and Mesa (Debian, Ubuntu: apt install {})"
BACKENDS = {  # what each of them needs
    "egl": MESA.format("libegl1 libgl1"),
    "osmesa": f"unset MUJOCO_GL, or {MESA.format('libosmesa6')}",
    "glfw": "it needs a display: unset MUJOCO_GL",
}
MATERIALS = {  # color and shine
    "shell": ((0.83, 0.84, 0.86), 0.35),
    "dark": ((0.13, 0.14, 0.16), 0.3),
    "rubber": ((0.06, 0.06, 0.07), 0.05),
}
SUN = np.array([-0.35, 0.45, -1.0])  # direction of its light
GROUND, GRID = (0.76, 0.78, 0.80), (0.70, 0.72, 0.75)
HAZE = (0.86, 0.91, 0.96)
SIZES = range(16, 1921)  # [pixels] of a picture's edge
OVERSAMPLING = 2  # along each edge: shadows have no smooth edges of their own
MOST_SHAPES = 3000  # of robot (60) and ground (1000 at most)
LENGTH = 1.3  # of a robot, compared with the distance between its hips
EVERYTHING = mujoco.mjtCatBit.mjCAT_ALL
OPENGL_USERS: set[int] = set()  # this process, or the one that it was forked from, if it has used OpenGL
SMOOTHING = 0.8  # [s] over which the camera's path is averaged


@dataclass(frozen=True)
class Camera:
    """azimuth [deg] of its view, from the robot's heading, counter-clockwise; elevation [deg]; distance in units of the
    robot's length; turning: whether it turns as the robot does.
    """

    azimuth: float
    elevation: float
    distance: float = 2.6
    turning: bool = False


CAMERAS = {
    "corner": Camera(130.0, -16.0),
    "side": Camera(90.0, -8.0),
    "front": Camera(180.0, -12.0, turning=True),
    "chase": Camera(0.0, -22.0, 3.2, turning=True),
    "top": Camera(90.0, -89.0, 3.6),
}


class Drawing:
    """Draws a robot on a terrain into pictures (height, width, 3) [pixels], from a camera that follows it.

    Raises SimulationError if a picture cannot be that large or the computer lacks OpenGL.
    """

    def __init__(self, robot: Robot, terrain: Terrain, view: Camera, width: int, height: int) -> None:
        if width not in SIZES or height not in SIZES:
            raise SimulationError(f"a picture of {width} x {height} pixels; choose {SIZES[0]} to {SIZES[-1]} each")
        self._robot, self._view, self._shape = robot, view, (height, width)
        fine = (width * OVERSAMPLING, height * OVERSAMPLING)
        self._body = Body(robot, display_model(robot, terrain, *fine))
        self._rectangle, self._scene = mujoco.MjrRect(0, 0, *fine), mujoco.MjvScene(self._body.model, MOST_SHAPES)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_FOG] = True
        self._camera, self._pixels = mujoco.MjvCamera(), np.empty((fine[1], fine[0], 3), dtype=np.uint8)
        self._camera.elevation, self._camera.distance = view.elevation, view.distance * 2 * LENGTH * footprint(robot)[0]
        self._gl, self._context = offscreen_context(self._body.model, *fine)

    def draw(self, trunk: Array, joints: Array, followed: Array, heading: float) -> Picture:
        """Return the picture of a pose, see Body.move, seen with the camera towards `followed` (3,) [m], from the
        view's azimuth relative to `heading` [rad].
        """
        body, camera, scene = self._body, self._camera, self._scene
        self._gl.make_current()  # other drawings of this thread have their own context
        body.move(trunk, joints)
        for compute in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_camlight):
            compute(body.model, body.data)
        body.data.light_xpos[0] = followed - 4.0 * SUN
        camera.lookat[:] = followed - [0.0, 0.0, 0.25 * self._robot.nominal_height]
        camera.azimuth = np.degrees(heading) + self._view.azimuth
        mujoco.mjv_updateScene(body.model, body.data, mujoco.MjvOption(), None, camera, EVERYTHING, scene)
        for geom in scene.geoms[: scene.ngeom]:
            if geom.category == mujoco.mjtCatBit.mjCAT_STATIC:  # ground: its shadow on itself would be speckled
                geom.category = mujoco.mjtCatBit.mjCAT_DECOR
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        mujoco.mjr_render(self._rectangle, scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rectangle, self._context)
        height, width = self._shape
        parts = self._pixels[::-1].reshape(height, OVERSAMPLING, width, OVERSAMPLING, 3)
        return parts.mean(axis=(1, 3)).round().astype(np.uint8)

    def close(self) -> None:
        """Free the graphics memory."""
        self._gl.make_current()
        self._context.free()
        self._gl.free()


def pictures(shown: Trajectory, view: Camera, width: int, height: int, rows: Iterable[int]) -> Iterator[Picture]:
    """Yield a picture (height, width, 3) [pixels] of each of some rows of a trajectory; raises as Drawing."""
    drawing = Drawing(shown.robot, shown.terrain, view, width, height)
    window = max(round(SMOOTHING / shown.period), 1)
    followed = averaged(shown.position, window)
    headings = averaged(np.unwrap(roll_pitch_yaw(shown.orientation)[:, 2])[:, None], window)[:, 0]
    try:
        for row in rows:
            trunk = np.concatenate([shown.position[row], shown.orientation[row, [3, 0, 1, 2]]])
            yield drawing.draw(trunk, shown.joints[row], followed[row], headings[row if view.turning else 0])
    finally:
        drawing.close()


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
    visual = spec.visual
    visual.global_.offwidth, visual.global_.offheight = width, height
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
    return compiled(robot, terrain, spec)


def offscreen_context(model: mujoco.MjModel, width: int, height: int) -> tuple[Any, mujoco.MjrContext]:
    """Return an OpenGL context without a window, and the model in it: by MUJOCO_GL if it is set, else by EGL, which
    needs no display.

    Raises SimulationError that names what to install, or if a parent process has used OpenGL: drivers hang after fork.
    """
    if OPENGL_USERS and os.getpid() not in OPENGL_USERS:
        raise SimulationError(
            "this process was forked from one that had drawn pictures, after which OpenGL hangs; start it by spawn, as "
            'gymnasium.make_vec does with vector_kwargs={"context": "spawn"}'
        )
    backend = os.environ.get("MUJOCO_GL", "").strip().lower() or "egl"
    if backend not in BACKENDS:
        raise SimulationError(f"MUJOCO_GL is {backend!r}; unset it, or choose one of {', '.join(BACKENDS)}")
    try:
        context = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
        context.make_current()
        OPENGL_USERS.add(os.getpid())
        return context, mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    except Exception as error:  # PyOpenGL and drivers raise whatever they like
        raise SimulationError(
            f"pictures need OpenGL, and MuJoCo cannot use it by {backend} ({error}); {BACKENDS[backend]}"
        ) from error
