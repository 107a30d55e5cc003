from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Finish = Callable[..., tuple[int, str]]
Write = Callable[[str], str]

TWO = """
        DeclareLaunchArgument("speed", default_value="0.5", description="metres a second"),
        DeclareLaunchArgument("robot", default_value="a1"),
        LogInfo(msg=["robot ", LaunchConfiguration("robot"), " at ", LaunchConfiguration("speed")]),
"""


def test_an_argument_has_its_default_unless_it_is_given(finish: Finish, launch_file: Write):
    assert "robot a1 at 0.5" in finish("launch", launch_file(TWO))[1]
    code, output = finish("launch", launch_file(TWO), "speed:=2", "robot:=aliengo", "speed:=3")
    assert (code, "robot aliengo at 3" in output) == (0, True)


def test_show_args_tells_names_descriptions_and_defaults_and_starts_nothing(finish: Finish, launch_file: Write):
    code, output = finish("launch", "--show-args", launch_file(TWO))
    assert code == 0
    assert "'speed':\n        metres a second\n        (default: '0.5')" in output
    assert "robot a1 at" not in output


def test_an_undeclared_argument_is_refused_with_the_declared_ones(finish: Finish, launch_file: Write):
    code, output = finish("launch", launch_file(TWO), "sped:=1")
    assert code == 1
    assert "'sped' is not declared by some.launch.py, which takes: speed, robot" in output
    assert "robot a1 at" not in output


def test_a_required_argument_must_be_given(finish: Finish, launch_file: Write):
    code, output = finish("launch", launch_file('DeclareLaunchArgument("policy")'))
    assert (code, "give policy:=VALUE" in output) == (1, True)


def test_a_malformed_argument_is_refused(finish: Finish, launch_file: Write):
    code, output = finish("launch", launch_file(TWO), "speed=1")
    assert (code, "expected name:=value" in output) == (1, True)


def test_an_included_file_gets_arguments_and_refuses_those_it_does_not_declare(
    finish: Finish, launch_file: Write, tmp_path: Path
):
    inner = Path(launch_file(TWO)).rename(tmp_path / "inner.launch.py")
    include = f'IncludeLaunchDescription(PythonLaunchDescriptionSource("{inner}"), launch_arguments=[("{{}}", "7")])'
    assert "robot a1 at 7" in finish("launch", launch_file(include.format("speed")))[1]
    code, output = finish("launch", launch_file(include.format("sped")))
    assert (code, "'sped' is not declared by inner.launch.py" in output) == (1, True)
    assert "'speed'" in finish("launch", "-s", launch_file(include.format("speed")))[1]


def test_substitutions_give_upstreams_texts(finish: Finish, launch_file: Write):
    entities = """
        DeclareLaunchArgument("speed", default_value="1.5"),
        LogInfo(msg=["<", PathJoinSubstitution(["a", LaunchConfiguration("speed")]), ">"]),
    """
    output = finish("launch", launch_file(entities))[1]
    assert "<a/1.5>" in output


def test_what_the_stand_in_does_not_know_is_refused_by_name(finish: Finish, launch_file: Write, tmp_path: Path):
    path = tmp_path / "other.launch.py"
    path.write_text("from launch.actions import ResetEnvironment\n")
    code, output = finish("launch", str(path))
    assert (code, "cannot import name 'ResetEnvironment' from 'launch.actions'" in output) == (1, True)
    code, output = finish("launch", launch_file('ExecuteProcess(cmd=["true"], shell=True)'))
    assert (code, "unexpected keyword argument 'shell'" in output) == (1, True)
    code, output = finish("launch", "--debug", launch_file(""))
    assert (code, "unrecognized arguments: --debug" in output) == (2, True)
    assert finish("topic", "bw", "/x")[0] == 2


def test_a_missing_file_or_package_is_told(finish: Finish):
    assert "package 'nowhere' is not in this workspace" in finish("launch", "nowhere", "x.launch.py")[1]
    assert "package 'nowhere' is not in this workspace" in finish("run", "nowhere", "program")[1]
