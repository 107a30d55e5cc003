"""The 3-D picture of a robot in pages, live or from a recording: its JavaScript modules, style and facts."""

from pathlib import Path
from typing import Any

from fcnet_core.robot import Robot

SCRIPTS = [Path(__file__).with_name(name) for name in ("canvas.js", "robot.js", "scene.js")]  # in order of import
STYLE = Path(__file__).with_name("scene.css")


def scene_facts(robot: Robot) -> dict[str, Any]:
    """Return the robot's sizes [m] for scene.js."""
    return {"trunk": list(robot.geometry.trunk), "foot": robot.geometry.foot_radius, "height": robot.nominal_height}
