"""The shipped layouts of RViz and Foxglove name what the suite has."""

import json
from pathlib import Path

import pytest
import yaml

from fcnet_core.remote_map import load_remote_map
from fcnet_core.robot import JOINT_NAMES, ROBOT_FOLDER

CONFIG = Path(ROBOT_FOLDER).parent
TOPICS = {"joint_states", "imu/data", "odom", "joint_trajectory", "robot_fault", "diagnostics", "controller/mode"}
TOPICS |= {"robot_description"}  # robot_state_publisher's


@pytest.fixture
def topics():
    sources = load_remote_map().sources
    return TOPICS | {source.velocity for source in sources} | {source.pose for source in sources}


def test_foxgloves_layout_shows_the_suites_topics_in_panels_that_exist(topics):
    layout = json.loads((CONFIG / "foxglove" / "fcnet.json").read_text())
    panels = layout["configById"]
    assert set(leaves(layout["layout"])) == set(panels)
    plots = [path["value"] for panel in panels.values() for path in panel.get("paths", [])]
    shown = [value[1:].partition(".")[0] for value in plots]
    shown += [panel[key][1:] for panel in panels.values() for key in ("topicPath", "topicToRender") if key in panel]
    shown += [name[1:] for panel in panels.values() for name in panel.get("topics", {})]
    assert plots
    assert set(shown) <= topics


def test_foxgloves_joint_is_the_one_it_is_called():
    panel = json.loads((CONFIG / "foxglove" / "fcnet.json").read_text())["configById"]["Plot!joint"]
    assert panel["title"].startswith(JOINT_NAMES[1].replace("_joint", "").replace("_", " "))
    assert all("[1]" in path["value"] for path in panel["paths"])


def test_rvizs_configuration_shows_the_robot(topics):
    layout = yaml.safe_load((CONFIG / "rviz" / "fcnet.rviz").read_text())["Visualization Manager"]
    displays = {display["Class"].rpartition("/")[2]: display for display in layout["Displays"]}
    assert displays["RobotModel"]["Description Topic"]["Value"] in topics
    assert displays["Odometry"]["Topic"]["Value"] in topics
    assert layout["Global Options"]["Fixed Frame"] == "base_link"


def leaves(tree):
    """Names of the panels of a layout."""
    return [tree] if isinstance(tree, str) else leaves(tree["first"]) + leaves(tree["second"])
