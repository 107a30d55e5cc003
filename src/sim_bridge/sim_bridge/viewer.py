"""MuJoCo's own window on a running simulation."""

from __future__ import annotations

import os
from typing import Any, Protocol

import mujoco


class Viewer(Protocol):
    """A window that shows the simulation's current state."""

    def is_running(self) -> bool:
        """Whether the window is still open."""
        ...

    def sync(self) -> None:
        """Draw the current state."""
        ...

    def close(self) -> None:
        """Close the window."""
        ...


def open_viewer(model: mujoco.MjModel, data: mujoco.MjData) -> Viewer:
    """Open a window. Raises ValueError where there is no display."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ValueError("there is no display for the viewer; leave out viewer:=true or set DISPLAY")
    import mujoco.viewer

    window: Any = mujoco.viewer.launch_passive(model, data, show_left_ui=False, show_right_ui=False)
    return window
