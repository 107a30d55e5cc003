"""The executables of this package are those of the Aliengo."""

import os
import subprocess

import pytest


def run(program, *arguments):
    environment = os.environ | {"ROS_DOMAIN_ID": "99", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    ended = subprocess.run(
        ["ros2", "run", "aliengo_bridge", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60.0,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_the_bridge_is_that_of_this_robot():
    code, output = run("bridge", "--ros-args", "-p", "auto_start:=true", "-p", "robot_file:=/nowhere/a1.yaml")
    assert code != 0
    assert "[aliengo_bridge]" in output


@pytest.mark.parametrize("program", ["fake_board", "doctor"])
def test_the_other_programs_say_what_they_do(program):
    code, output = run(program, "--help")
    assert code == 0
    assert "aliengo" in output
