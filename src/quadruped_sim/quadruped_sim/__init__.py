"""Quadrupeds in MuJoCo: robots, terrains, experts, collection and closed-loop evaluation."""

import importlib
import os


def _import_mujoco(backend: str) -> None:
    """Import MuJoCo even if MUJOCO_GL, which is `backend`, is unknown or not installed.

    Only pictures need OpenGL; render/renderer.py reports what is missing.
    """
    try:
        importlib.import_module("mujoco")
    except Exception:  # noqa: BLE001 - PyOpenGL raises whatever it likes
        os.environ["MUJOCO_GL"] = "disable"
        try:
            importlib.import_module("mujoco")
        finally:
            os.environ["MUJOCO_GL"] = backend


if _backend := os.environ.get("MUJOCO_GL"):
    _import_mujoco(_backend)
