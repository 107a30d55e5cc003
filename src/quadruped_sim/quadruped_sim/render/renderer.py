"""Draws a trajectory with MuJoCo's renderer, off the screen, from a camera that follows the robot."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from fcnet_core.errors import SimulationError
from fcnet_core.rotation import roll_pitch_yaw
from quadruped_sim.physics.body import Body
from quadruped_sim.render.appearance import SUN, display_model, half_length
from quadruped_sim.render.trajectory import Trajectory, averaged

Image = npt.NDArray[np.uint8]
MESA = "install PyOpenGL (pip install pyopengl) and Mesa (Debian, Ubuntu: apt install {})"
BACKENDS = {  # what each of them needs
    "egl": MESA.format("libegl1 libgl1"),
    "osmesa": f"unset MUJOCO_GL, or {MESA.format('libosmesa6')}",
    "glfw": "it needs a display: unset MUJOCO_GL",
}
SIZES = range(16, 1921)  # [pixels] of a picture's edge
OVERSAMPLING = 2  # along each edge: shadows have no smooth edges of their own
MOST_SHAPES = 3000  # of robot (60) and ground (1000 at most)
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


class Renderer:
    """Draws a trajectory in pictures of width x height pixels; a context manager.

    Raises SimulationError if a picture cannot be that large or the computer lacks OpenGL.
    """

    def __init__(self, shown: Trajectory, camera: Camera, width: int, height: int) -> None:
        if width not in SIZES or height not in SIZES:
            raise SimulationError(f"a picture of {width} x {height} pixels; choose {SIZES[0]} to {SIZES[-1]} each")
        fine = (width * OVERSAMPLING, height * OVERSAMPLING)
        self._trajectory, self._camera, self._rectangle = shown, camera, mujoco.MjrRect(0, 0, *fine)
        self._body = Body(shown.robot, display_model(shown.robot, shown.terrain, *fine))
        self._model = self._body.model
        self._scene = mujoco.MjvScene(self._model, MOST_SHAPES)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_FOG] = True
        window = max(round(SMOOTHING / shown.period), 1)
        self._followed = averaged(shown.position, window)
        self._heading = averaged(np.unwrap(roll_pitch_yaw(shown.orientation)[:, 2])[:, None], window)[:, 0]
        self._gl, self._context = offscreen_context(self._model, *fine)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.free()
        self._gl.free()

    def draw(self, row: int) -> Image:
        """Return the picture (height, width, 3) of one row of the trajectory."""
        shown, data, look = self._trajectory, self._body.data, self._followed[row]
        trunk = np.concatenate([shown.position[row], shown.orientation[row, [3, 0, 1, 2]]])
        self._body.move(trunk, shown.joints[row])
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_comPos(self._model, data)
        mujoco.mj_camlight(self._model, data)
        data.light_xpos[0] = look - 4.0 * SUN
        camera = mujoco.MjvCamera()
        camera.lookat[:] = look - [0.0, 0.0, 0.25 * shown.robot.nominal_height]
        heading = self._heading[row if self._camera.turning else 0]
        camera.azimuth, camera.elevation = np.degrees(heading) + self._camera.azimuth, self._camera.elevation
        camera.distance = self._camera.distance * 2 * half_length(shown.robot)
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self._model, data, mujoco.MjvOption(), None, camera, everything, self._scene)
        for geom in self._scene.geoms[: self._scene.ngeom]:
            if geom.category == mujoco.mjtCatBit.mjCAT_STATIC:
                geom.category = mujoco.mjtCatBit.mjCAT_DECOR  # ground casts no shadow: on itself it would be speckled
        mujoco.mjr_render(self._rectangle, self._scene, self._context)
        pixels = np.empty((self._rectangle.height, self._rectangle.width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(pixels, None, self._rectangle, self._context)
        parts = pixels[::-1].reshape(-1, OVERSAMPLING, self._rectangle.width // OVERSAMPLING, OVERSAMPLING, 3)
        return parts.mean(axis=(1, 3)).round().astype(np.uint8)


def offscreen_context(model: mujoco.MjModel, width: int, height: int) -> tuple[Any, mujoco.MjrContext]:
    """Return an OpenGL context without a window, and the model in it: by MUJOCO_GL if it is set, else by EGL, which
    needs no display.

    Raises SimulationError that names what to install.
    """
    backend = os.environ.get("MUJOCO_GL", "").strip().lower() or "egl"
    if backend not in BACKENDS:
        raise SimulationError(f"MUJOCO_GL is {backend!r}; unset it, or choose one of {', '.join(BACKENDS)}")
    try:
        context = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
        context.make_current()
        return context, mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    except Exception as error:  # PyOpenGL and drivers raise whatever they like
        raise SimulationError(
            f"pictures need OpenGL, and MuJoCo cannot use it by {backend} ({error}); {BACKENDS[backend]}"
        ) from error
