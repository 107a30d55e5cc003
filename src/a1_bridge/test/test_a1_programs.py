"""The executables of this package are those of the A1."""

import os
import subprocess

import pytest


@pytest.mark.parametrize(
    ("program", "arguments", "said"),
    [
        ("bridge", "--ros-args -p auto_start:=true -p robot_file:=/nowhere/aliengo.yaml", "[a1_bridge]"),
        ("fake_board", "--help", "a1"),
        ("doctor", "--help", "a1"),
    ],
)
def test_every_program_is_that_of_this_robot(program, arguments, said):
    environment = os.environ | {"ROS_DOMAIN_ID": "99", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    command = ["ros2", "run", "a1_bridge", program, *arguments.split()]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60.0)
    assert (ended.returncode == 0) == (arguments == "--help")
    assert said in ended.stdout + ended.stderr
