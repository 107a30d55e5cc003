"""Quadrupeds in MuJoCo: robots, terrains, experts, collection and closed-loop evaluation."""

import importlib
import os

# Only pictures need OpenGL: MuJoCo is imported even if MUJOCO_GL is unknown or not installed, and
# render/renderer.py reports what is missing.
if _backend := os.environ.get("MUJOCO_GL"):
    try:
        importlib.import_module("mujoco")
    except Exception:  # noqa: BLE001 - PyOpenGL raises whatever it likes
        os.environ["MUJOCO_GL"] = "disable"
        importlib.import_module("mujoco")
        os.environ["MUJOCO_GL"] = _backend
