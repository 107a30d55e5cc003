"""The picture of a robot that pages draw, live or of a recording: modules, colours, and what they have to know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fcnet_core.robot import Robot

SCRIPTS = [Path(__file__).with_name(name) for name in ("canvas.js", "robot.js", "scene.js")]  # in order of import
STYLE = Path(__file__).with_name("scene.css")


def scene_facts(robot: Robot) -> dict[str, Any]:
    """What scene.js has to know of the robot, as JSON's types [m]."""
    return {
        "trunk": list(robot.geometry.trunk),
        "foot": robot.geometry.foot_radius,
        "height": robot.nominal_height,
    }
