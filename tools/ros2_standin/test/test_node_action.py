from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Finish = Callable[..., tuple[int, str]]

PROGRAM = """#!{python}
import os, sys
print(sys.argv[1:], os.environ.get("GIVEN"))
for path in [following for option, following in zip(sys.argv, sys.argv[1:]) if option == "--params-file"]:
    print("FILE", open(path).read().replace("\\n", " "))
"""

LAUNCH_FILE = """
from launch import LaunchDescription
from launch.substitutions import PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare


def generate_launch_description():
    return LaunchDescription([
        {entities}
    ])
"""


@pytest.fixture
def run_node(finish: Finish, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    prefix = tmp_path / "install"
    index = prefix / "share/ament_index/resource_index/packages"
    index.mkdir(parents=True)
    (index / "echoing").touch()
    (prefix / "share/echoing").mkdir()
    (prefix / "share/echoing/robot.yaml").write_text("/**:\n  ros__parameters:\n    rate: 50.0\n")
    program = prefix / "lib/echoing/echo_arguments"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)

    def run(entities: str, *arguments: str) -> tuple[int, str]:
        path = tmp_path / "node.launch.py"
        path.write_text(LAUNCH_FILE.format(entities=entities))
        return finish("launch", str(path), *arguments, AMENT_PREFIX_PATH=str(prefix))

    return run


def node(more: str) -> str:
    return f'Node(package="echoing", executable="echo_arguments", output="screen", {more})'


def test_namespace_arguments_and_remappings_reach_the_program_in_upstreams_order(run_node: Finish):
    more = 'namespace="ns", arguments=["a", "--ros-args", "--log-level", "warn"], remappings=[("x", "y")]'
    wanted = "['a', '--ros-args', '--log-level', 'warn', '--ros-args', '-r', '__ns:=/ns', '-r', 'x:=y']"
    assert wanted in run_node(node(more))[1]
    assert "__ns:=/']" in run_node(node("namespace=''"))[1]
    assert "['--ros-args']" in run_node(node(""))[1]


def test_a_node_has_the_environment_that_it_is_given(run_node: Finish):
    assert "'] yes" in run_node(node('additional_env={"GIVEN": "yes"}'))[1]


def test_parameters_become_temporary_files_in_their_order(run_node: Finish, tmp_path: Path):
    share = 'PathJoinSubstitution([FindPackageShare("echoing"), "robot.yaml"])'
    output = run_node(node(f'parameters=[{share}, {{"rate": 100.0, "leg.kp": 40, "text": "1"}}]'))[1]
    files = [line for line in output.splitlines() if "FILE" in line]
    assert "rate: 50.0" in files[0]
    for wanted in ("rate: 100.0", "leg.kp: 40", "text: '1'"):
        assert wanted in files[1]
    assert not list(tmp_path.glob("launch_params_*"))


@pytest.mark.parametrize("value", ["None", "[]", "[1, 2.5]", "{'kp': 1}"])
def test_a_parameter_of_no_ros_type_is_refused(run_node: Finish, value: str):
    code, output = run_node(node(f'parameters=[{{"x": {value}}}]'))
    assert (code, "expected a bool, int, float, text" in output) == (1, True)


def test_a_missing_parameter_file_or_executable_is_refused(run_node: Finish):
    code, output = run_node(node("parameters=['/no/such.yaml']"))
    assert (code, "parameter file /no/such.yaml does not exist" in output) == (1, True)
    code, output = run_node('Node(package="echoing", executable="sing")')
    assert (code, "has no executable 'sing'; it has: echo_arguments" in output) == (1, True)
