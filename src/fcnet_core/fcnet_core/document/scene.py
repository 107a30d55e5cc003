"""The picture of a robot that pages draw, live or of a recording: scene.js, its colours, and what it has to know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fcnet_core.robot import Robot

SCRIPT = Path(__file__).with_name("scene.js")
STYLE = Path(__file__).with_name("scene.css")


def scene_facts(robot: Robot) -> dict[str, Any]:
    """What the script has to know of the robot, as JSON's types [m]."""
    return {
        "trunk": list(robot.geometry.trunk),
        "foot": robot.geometry.foot_radius,
        "height": robot.nominal_height,
    }
