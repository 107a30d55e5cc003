"""The names that packages share, and that no other module of the product spells a topic's name."""

import ast
import re
from pathlib import Path

import yaml

from fcnet_core import names

ROOT = Path(__file__).resolve().parents[3]
TESTS = re.compile(r"(^|/)tests?/|(^|/)(conftest|test_\w+)\.py$|^tools/ros2_standin")
TABLE = ROOT / "src" / "fcnet_core" / "fcnet_core" / "names.py"
WORDS = {"clock", "tf", "terrain", "diagnostics"}  # mean more than a topic; "/clock" is one
SPELT = {topic.of(names.CONTROLLER).name.lstrip("/") for topic in names.TOPIC_NAMES}
PRIVATE = {topic.name[1:] for topic in names.TOPIC_NAMES if topic.name.startswith("~")}  # "/mode"


def test_a_topic_name_stands_in_the_table_only():
    """Of modules of packages, launch files, benchmarks and tools, whose string constants are looked at."""
    found = []
    for path in (path for folder in ("src", "launch", "benchmarks", "tools") for path in (ROOT / folder).rglob("*.py")):
        if not TESTS.search(path.relative_to(ROOT).as_posix()):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
            found += [path for text in texts - WORDS if {text.removeprefix("~").lstrip("/")} & SPELT]
            found += [path for text in texts - WORDS if text.removeprefix("~") in PRIVATE]
    assert {*found} == {TABLE}


def test_topics_keep_the_names_that_users_rely_on():
    known = yaml.safe_load((Path(__file__).parent / "data" / "topics.yaml").read_text(encoding="utf-8"))
    assert {topic.name: topic.type for topic in names.TOPIC_NAMES} == known


def test_names_of_topics_and_statuses_have_node_and_namespace():
    assert names.MODE.of("controller").name == "controller/mode"
    assert names.full_name("odom", "/dog/") == "/dog/odom"
    assert names.full_name("odom", "") == "/odom"
    assert names.full_name("/diagnostics", "dog") == "/diagnostics"
    assert names.status_name("/controller", "control") == "controller: control"
    assert names.status_name("dog/bridge", "motors") == "dog/bridge: motors"
    assert names.status_name("/x", "") == "x"


def test_modes_requests_and_settings_use_the_words_that_users_rely_on():
    modes = "passive recovering standing_up standing walking lying_down fault"
    assert {mode.value for mode in names.Mode} == set(modes.split())
    requests = "stand_up recover walk lie_down reset emergency_stop"
    assert {request.value for request in names.Request} == set(requests.split())
    sources = yaml.safe_load((ROOT / "config" / "remote.yaml").read_text(encoding="utf-8"))["sources"]
    assert (names.CMD_VEL.name, names.CMD_POSE.name) in {(one["velocity"], one["pose"]) for one in sources}
    assert tuple(names.STYLE_PARAMETERS) == tuple(names.SETPOINT_UNITS)[6:]
