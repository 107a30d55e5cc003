"""Launch arguments, and what is refused by name."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(("verb", "code"), [(("launch", "nowhere", "x.launch.py"), 1), (("run", "nowhere", "x"), 1),
                                            (("topic", "bw", "/x"), 2)])  # fmt: skip
def test_a_missing_package_and_an_unknown_verb_are_refused(finish, verb, code):
    returned, output = finish(*verb)
    assert (returned, "package 'nowhere' is not in this workspace" in output) == (code, code == 1)
