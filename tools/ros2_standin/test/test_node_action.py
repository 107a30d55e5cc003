from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Finish = Callable[..., tuple[int, str]]

PROGRAM = """#!{python}
import sys
print(sys.argv[1:])
for path in [following for option, following in zip(sys.argv, sys.argv[1:]) if option == "--params-file"]:
    print("FILE", open(path).read().replace("\\n", " "))
"""

LAUNCH_FILE = """
from typing import List

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node, PushRosNamespace, SetParameter
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description():
    value = LaunchConfiguration("value")
    return LaunchDescription([
        DeclareLaunchArgument("value", default_value="1"),
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


def test_name_namespace_arguments_and_remappings_reach_the_program_in_upstreams_order(run_node: Finish):
    more = 'name="n", namespace="ns", arguments=["a"], ros_arguments=["--log-level", "warn"], remappings=[("x", "y")]'
    assert (
        "['a', '--ros-args', '--log-level', 'warn', '--ros-args', '-r', '__node:=n', '-r', '__ns:=/ns', '-r', 'x:=y']"
        in run_node(node(more))[1]
    )


def test_namespaces_of_groups_are_joined_and_end_with_the_group(run_node: Finish):
    inner = node("namespace='left'")
    entities = f'GroupAction([PushRosNamespace("dog"), {inner}]), {node("")}'
    output = run_node(entities)[1]
    assert "__ns:=/dog/left" in output
    assert "__ns:=/']" in run_node(node("namespace=''"))[1]
    assert "['--ros-args']" in output


def test_parameters_become_files_in_their_order(run_node: Finish):
    share = 'PathJoinSubstitution([FindPackageShare("echoing"), "robot.yaml"])'
    output = run_node(node(f'parameters=[{share}, {{"rate": 100.0, "leg": {{"kp": 40}}}}]'))[1]
    files = [line for line in output.splitlines() if "FILE" in line]
    assert "rate: 50.0" in files[0]
    assert "rate: 100.0" in files[1] and "leg.kp: 40" in files[1]


def test_parameters_of_a_scope_come_before_the_nodes_own(run_node: Finish):
    inner = node("parameters=[{'rate': 1.0}]")
    entities = f'GroupAction([SetParameter("use_sim_time", True), {inner}])'
    output = run_node(entities)[1]
    assert output.index("'-p', 'use_sim_time:=true'") < output.index("--params-file")


@pytest.mark.parametrize(
    ("text", "expression", "expected"),
    [
        ("1", "value", "x: 1 "),
        ("1.5", "value", "x: 1.5"),
        ("true", "value", "x: true"),
        ("[1, 2]", "value", "- 1     - 2"),
        ("1", "ParameterValue(value, value_type=str)", "x: '1'"),
        ("1", "ParameterValue(value, value_type=float)", "x: 1.0"),
        ("[1.0, 2.0]", "ParameterValue(value, value_type=List[float])", "- 1.0     - 2.0"),
        ("7", "'1'", "x: '1'"),
        ("7", "[1, 2.5]", "- 1.0     - 2.5"),
    ],
)
def test_values_are_typed_as_upstream_types_them(run_node: Finish, text: str, expression: str, expected: str):
    assert expected in run_node(node(f'parameters=[{{"x": {expression}}}]'), f"value:={text}")[1]


@pytest.mark.parametrize(
    ("text", "expression", "sentence"),
    [
        ("a: b", "value", "expected a bool, int, float, text"),
        ("[1", "value", "is no YAML"),
        ("fast", "ParameterValue(value, value_type=float)", "expected float"),
        ("[1, 2]", "ParameterValue(value, value_type=List[float])", "expected a list of float"),
        ("7", "[]", "non-empty list"),
    ],
)
def test_values_of_other_types_are_refused(run_node: Finish, text: str, expression: str, sentence: str):
    code, output = run_node(node(f'parameters=[{{"x": {expression}}}]'), f"value:={text}")
    assert (code, sentence in output) == (1, True)


def test_a_missing_parameter_file_or_executable_is_told(run_node: Finish):
    code, output = run_node(node("parameters=['/no/such.yaml']"))
    assert (code, "parameter file /no/such.yaml does not exist" in output) == (1, True)
    code, output = run_node('Node(package="echoing", executable="sing")')
    assert (code, "has no executable 'sing'; it has: echo_arguments" in output) == (1, True)
