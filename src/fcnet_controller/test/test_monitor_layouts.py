"""The shipped layouts of RViz and Foxglove name what the suite, RViz and Foxglove have."""

import importlib
import json
import re
from pathlib import Path

import yaml
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rosidl_parser.definition import AbstractNestedType, NamespacedType
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String

from fcnet_core.remote import load_remote_map
from fcnet_core.robot import ROBOT_FOLDER
from fcnet_core.urdf import BASE_FRAME
from fcnet_ros.topics import TOPICS

CONFIG = Path(ROBOT_FOLDER).parent
TYPES = {topic.name.lstrip("/"): topic.kind for topic in TOPICS}
TYPES |= {source.velocity: Twist for source in load_remote_map().sources}
# What a display of rviz_default_plugins (plugins_description.xml, jazzy) listens to, under which property.
DISPLAYS = {
    "Grid": {}, "TF": {}, "RobotModel": {"Description Topic": String}, "Odometry": {"Topic": Odometry},
    "PointCloud2": {"Topic": PointCloud2},
}  # fmt: skip
# What Foxglove's panels are called in a layout, and the messages they take; None for any.
PANELS = {"3D": None, "Plot": None, "RawMessages": None, "DiagnosticSummary": DiagnosticArray}
POLICIES = {
    "History Policy": {"Keep Last", "Keep All", "System Default"},
    "Reliability Policy": {"Reliable", "Best Effort", "System Default"},
    "Durability Policy": {"Volatile", "Transient Local", "System Default"},
}


FOXGLOVE = json.loads((CONFIG / "foxglove" / "fcnet.json").read_text())
RVIZ = yaml.safe_load((CONFIG / "rviz" / "fcnet.rviz").read_text())["Visualization Manager"]


def test_foxgloves_layout_has_panels_that_exist_with_topics_of_their_kind_and_follows_the_robots_root():
    panels = FOXGLOVE["configById"]
    assert set(leaves(FOXGLOVE["layout"])) == set(panels)
    for name, panel in panels.items():
        kind = name.partition("!")[0]
        assert kind in PANELS
        shown = [panel[key] for key in ("topicPath", "topicToRender") if key in panel]
        for topic in (*shown, *panel.get("topics", ())):
            assert PANELS[kind] in (None, TYPES[topic[1:]])
    assert panels["3D!robot"]["followTf"] == BASE_FRAME


def test_foxgloves_plots_show_numbers_that_the_messages_have_of_the_joint_in_their_title():
    plotted = [path["value"] for panel in FOXGLOVE["configById"].values() for path in panel.get("paths", [])]
    assert len(plotted) > 10
    for path in plotted:
        topic, *fields = path[1:].split(".")
        assert is_number(TYPES[topic], fields), path
    joint = FOXGLOVE["configById"]["Plot!joint"]
    assert joint["title"].startswith("FR thigh")
    assert all("[1]" in path["value"] for path in joint["paths"])


def test_rvizs_displays_exist_and_listen_to_topics_of_their_kind_also_to_what_was_published_before():
    for display in RVIZ["Displays"]:
        package, kind = display["Class"].split("/")
        assert package == "rviz_default_plugins"
        assert {name for name in display if name.endswith("Topic")} == set(DISPLAYS[kind])
        for name, message in DISPLAYS[kind].items():
            assert TYPES[display[name]["Value"]] is message
            for policy, known in POLICIES.items():
                assert display[name][policy] in known
    assert RVIZ["Global Options"]["Fixed Frame"] == BASE_FRAME
    displays = {display["Class"].rpartition("/")[2]: display for display in RVIZ["Displays"]}
    assert displays["RobotModel"]["Description Source"] == "Topic"
    assert displays["RobotModel"]["Description Topic"]["Durability Policy"] == "Transient Local"
    assert displays["PointCloud2"]["Topic"]["Durability Policy"] == "Transient Local"


def leaves(tree):
    """Names of the panels of a layout."""
    return [tree] if isinstance(tree, str) else leaves(tree["first"]) + leaves(tree["second"])


def is_number(message, fields):
    """Whether a path of fields, such as twist, linear, x or points[0], leads to a number of the message."""
    kind = message
    for field in fields:
        name, index = re.fullmatch(r"(\w+)(\[\d+\])?", field).groups()
        kind = dict(zip(kind.get_fields_and_field_types(), kind.SLOT_TYPES, strict=True))[name]
        assert isinstance(kind, AbstractNestedType) == bool(index)
        kind = kind.value_type if index else kind
        if isinstance(kind, NamespacedType):
            kind = getattr(importlib.import_module(".".join(kind.namespaces)), kind.name)
    return getattr(kind, "typename", "") == "double"
