"""Launch arguments, what a node is given, and what is refused by name."""

import sys
from collections.abc import Callable

import pytest

PROGRAM = """#!{python}
import os, sys
print(sys.argv[1:], os.environ.get("GIVEN"))
for path in [following for option, following in zip(sys.argv, sys.argv[1:]) if option == "--params-file"]:
    print("FILE", open(path).read().replace("\\n", " "))
"""


@pytest.fixture
def run_node(finish, launch_file, tmp_path) -> Callable[..., tuple[int, str]]:
    prefix = tmp_path / "install"
    index = prefix / "share/ament_index/resource_index/packages"
    index.mkdir(parents=True)
    (index / "echoing").touch()
    (tmp_path / "robot.yaml").write_text("/**:\n  ros__parameters:\n    rate: 50.0\n")
    program = prefix / "lib/echoing/echo_arguments"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)

    return lambda entities: finish("launch", launch_file(entities), AMENT_PREFIX_PATH=str(prefix))


def node(more: str) -> str:
    return f'Node(package="echoing", executable="echo_arguments", output="screen", {more})'


@pytest.mark.parametrize(
    ("entities", "code", "words"),
    [
        (
            node('namespace="ns", arguments=["a", "--ros-args", "--log-level", "warn"], remappings=[("x", "y")]'),
            0,
            "['a', '--ros-args', '--log-level', 'warn', '--ros-args', '-r', '__ns:=/ns', '-r', 'x:=y'] None",
        ),
        (node("namespace=''"), 0, "__ns:=/'] None"),
        (node("additional_env={'GIVEN': 'yes'}"), 0, "['--ros-args'] yes"),
        (node("name='other'"), 1, "keyword argument 'name'"),
        (node("parameters=['/no/such.yaml']"), 1, "parameter file /no/such.yaml does not exist"),
        ('Node(package="echoing", executable="sing")', 1, "has no executable 'sing'; it has: echo_arguments"),
    ],
)
def test_what_a_node_is_given_reaches_the_program_in_upstreams_order_or_is_refused(run_node, entities, code, words):
    returned, output = run_node(entities)
    assert (returned, words in output) == (code, True), output


def test_parameters_become_temporary_files_in_their_order(run_node, tmp_path):
    output = run_node(node(f'parameters=["{tmp_path}/robot.yaml", {{"rate": 100.0, "leg.kp": 40, "text": "1"}}]'))[1]
    files = [line for line in output.splitlines() if "FILE" in line]
    assert "rate: 50.0" in files[0]
    for wanted in ("rate: 100.0", "leg.kp: 40", "text: '1'"):
        assert wanted in files[1]
    assert not list(tmp_path.glob("launch_params_*"))


TWO = """
        DeclareLaunchArgument("speed", default_value="0.5", description="metres a second"),
        DeclareLaunchArgument("robot", default_value="a1"),
        OpaqueFunction(function=lambda context: [LogInfo(msg="robot {} at {}".format(
            *(LaunchConfiguration(name).perform(context) for name in ("robot", "speed"))))]),
"""
SHELL = 'ExecuteProcess(cmd=["true"], shell=True)'


@pytest.mark.parametrize(
    ("entities", "arguments", "code", "words"),
    [
        (TWO, [], 0, "robot a1 at 0.5"),
        (TWO, ["speed:=2", "robot:=aliengo", "speed:=3"], 0, "robot aliengo at 3"),
        (TWO, ["--show-args"], 0, "'speed':\n        metres a second\n        (default: '0.5')"),
        (TWO, ["sped:=1"], 1, "'sped' is not declared by some.launch.py, which takes: speed, robot"),
        (TWO, ["speed=1"], 1, "expected name:=value"),
        ('DeclareLaunchArgument("policy")', [], 1, "give policy:=VALUE"),
        (SHELL, [], 1, "unexpected keyword argument 'shell'"),
        ("", ["--debug"], 2, "unrecognized arguments: --debug"),
        ('LogInfo(msg=LaunchConfiguration("x"))', [], 1, "the stand-in has no substitutions in texts"),
        ("ResetEnvironment()", [], 1, "name 'ResetEnvironment' is not defined"),
    ],
)
def test_arguments_are_taken_shown_or_refused(finish, launch_file, entities, arguments, code, words):
    returned, output = finish("launch", launch_file(entities), *arguments)
    assert (returned, words in output) == (code, True), output
    assert "robot a1 at" not in output or not arguments


MISSING = "package 'nowhere' is not in this workspace"
VERBS = [("launch nowhere x.launch.py", 1, MISSING), ("run nowhere x", 1, MISSING), ("topic bw /x", 2, "'bw'")]


@pytest.mark.parametrize(("verb", "code", "words"), VERBS)
def test_a_missing_package_and_an_unknown_verb_are_refused(finish, verb, code, words):
    returned, output = finish(*verb.split())
    assert (returned, words in output) == (code, True), output
