"""docs/deployment.md and the settings it recommends name things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from fcnet_controller.parameters import ControllerParameters
from fcnet_core.robot import Safety
from fcnet_ros.parameters import default_parameters
from unitree_bridge.hardware import BridgeParameters
from unitree_lowlevel.safety.monitor import IDENTITY

WORKSPACE = Path(__file__).resolve().parents[3]
GUIDE = (WORKSPACE / "docs" / "deployment.md").read_text()
LOW_LEVEL = WORKSPACE / "src" / "unitree_lowlevel" / "unitree_lowlevel"


def findings_in_the_code() -> set[str]:
    """The name of every finding: the first argument of each Finding."""
    text = "\n".join(path.read_text() for path in (LOW_LEVEL / "driver.py", *(LOW_LEVEL / "safety").glob("*.py")))
    return {IDENTITY, *re.findall(r'Finding\(\s*"([a-z_]+)"', text)}


def rows(after: str) -> list[list[str]]:
    """The cells of the table that follows a line with `after`."""
    lines = GUIDE.split(after, 1)[1].split("\n\n")[2].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_trip_is_explained_and_none_is_invented():
    only_warnings = {"foreign_packets", "rejected_packets", "unsent_commands"}
    explained = {name for row in rows("## Trips") for name in re.findall(r"`(\w+)`", row[0])}
    assert explained | only_warnings == findings_in_the_code()
    assert all(f"`{name}`" in GUIDE for name in only_warnings)


def test_the_thresholds_of_the_trips_are_those_of_a_robot_file():
    known = set(Safety.__struct_fields__)
    named = {
        word for row in rows("## Trips") for word in re.findall(r"\b\w+_\w+\b", row[1].replace("joint_trajectory", ""))
    }
    assert named <= known


def test_the_recommended_parameters_exist():
    settings = yaml.safe_load((WORKSPACE / "config" / "bridges" / "real_time.yaml").read_text())
    kinds = {"aliengo_bridge": BridgeParameters, "a1_bridge": BridgeParameters, "controller": ControllerParameters}
    assert set(settings) == {f"/**/{node}" for node in kinds}, "in every namespace"
    for node, kind in kinds.items():
        assert set(settings[f"/**/{node}"]["ros__parameters"]) <= set(default_parameters(kind))
