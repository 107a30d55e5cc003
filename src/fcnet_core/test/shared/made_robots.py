"""Robots that are made up for tests: other joints, another number of them, no legs, no lying pose."""

from __future__ import annotations

from pathlib import Path

from fcnet_core.robot import Robot, load_robot

FOLDER = Path(__file__).parent / "robots"
BIPED, TAILED = FOLDER / "biped.yaml", FOLDER / "tailed.yaml"


def every_robot() -> list[Robot]:
    """The robots of the suite and these."""
    return [load_robot(name) for name in ("aliengo", "a1", BIPED, TAILED)]
