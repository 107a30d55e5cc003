"""Each robot's package has executables of that robot."""

import os
import subprocess

import pytest


@pytest.mark.parametrize("robot", ["aliengo", "a1"])
@pytest.mark.parametrize(
    ("program", "arguments", "code", "named"),
    [
        ("bridge", ["--ros-args", "-p", "auto_start:=true", "-p", "robot_file:=/nowhere/b1.yaml"], 1, "[{}_bridge]"),
        ("fake_board", ["--help"], 0, "{}"),
        ("doctor", ["--help"], 0, "{}"),
    ],
)
def test_a_program_is_that_of_its_robot(robot, program, arguments, code, named):
    environment = os.environ | {"ROS_DOMAIN_ID": "99", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    command = ["ros2", "run", f"{robot}_bridge", program, *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60.0)
    output = ended.stdout + ended.stderr
    assert (ended.returncode, named.format(robot) in output) == (code, True), output
