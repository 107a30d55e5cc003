"""The column "may import" of the table in CONTRIBUTING.md is what the packages import. No module but that of the names
that packages share spells a topic's name.
"""

import ast
import re
from pathlib import Path

import pytest
import yaml

from fcnet_core import names

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("src/*/package.xml"))
ROS = re.compile(r"rclpy|ament_\w+|launch(_\w+)?|ros(idl|bag2|2)_?\w*|rpyutils|tf2_\w+|std_srvs|\w+_(msgs|interfaces)")
ROW = re.compile(r"^\| (`src/.*) \|.*\| (.*) \|$", re.MULTILINE)
ALLOWED = {
    package: set(re.split(r",\s*", may_import.split(";")[0]))
    for names, may_import in ROW.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    for package in re.findall(r"src/(\w+)", names)
}


def listed_imports(package):
    """Where the package imports what the table lists: other packages, ROS, the simulator (mujoco), torch."""
    found = {}
    for path in sorted((ROOT / "src" / package / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module]
            for name in {module.split(".")[0] for module in modules} - {package}:
                kind = "ROS" if ROS.fullmatch(name) else name
                if kind in {"ROS", "mujoco", "torch", *PACKAGES}:
                    found.setdefault(kind, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_every_package_has_one_row():
    assert sorted(ALLOWED) == PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_its_row_lists(package):
    found = listed_imports(package)
    assert {kind: places for kind, places in found.items() if kind not in ALLOWED[package]} == {}


def test_imports_point_one_way():
    below = {package: ALLOWED[package] & {*PACKAGES} for package in PACKAGES}
    while free := [package for package, others in below.items() if not others & {*below}]:
        for package in free:
            del below[package]
    assert below == {}  # what is left is a cycle


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
