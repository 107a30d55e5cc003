"""The column "may import" of the table in CONTRIBUTING.md is what the packages import."""

import ast
import re
from pathlib import Path

import pytest

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
