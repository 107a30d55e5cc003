"""Programs in the environment of another ROS stack, and on a machine without a home."""

import os
from contextlib import nullcontext

import pytest
from machine import NOBODY, READ_ONLY, needs_mounts, open_to_all, run

from fcnet_core.errors import ParameterError
from fcnet_ros.environment import check_environment

PROGRAM = "import sys; from fcnet_ros import entry_point; sys.argv[0] = 'program'; sys.exit(entry_point(sys.argv[1])())"
STANDIN = "import sys, ros2_standin.program; sys.exit(ros2_standin.program.main())"
NODE = """
import sys
from fcnet_ros import entry_point
def main():
    from rclpy.node import Node
    from fcnet_ros.program import run_program
    return run_program("tiny", lambda: Node("tiny"), lambda node, stop: node.get_logger().info("works") and 0)
sys.modules["tiny"] = sys.modules["__main__"]
sys.exit(entry_point("tiny")())
"""


@pytest.mark.parametrize(
    ("name", "value", "ends"),
    [
        *(("ROS_DOMAIN_ID", value, True) for value in ("abc", "233", "300", "-1", "1.5", " 1", "\u0661")),
        *(("ROS_DOMAIN_ID", value, False) for value in ("", "232")),
        ("RMW_IMPLEMENTATION", "rmw_cyclonedds_cpp", True),
        ("RMW_IMPLEMENTATION", "", False),
        ("CYCLONEDDS_URI", "file:///nowhere", False),
        ("ROS_AUTOMATIC_DISCOVERY_RANGE", "EVERYWHERE", True),
        ("ROS_LOCALHOST_ONLY", "yes", True),
        ("RCUTILS_COLORIZED_OUTPUT", "always", True),
        ("RCUTILS_LOGGING_USE_STDOUT", "2", True),
        ("FASTRTPS_DEFAULT_PROFILES_FILE", "/nowhere.xml", True),
        ("FASTDDS_DEFAULT_PROFILES_FILE", __file__, True),
    ],
)
def test_a_variable_with_which_ros_cannot_start_is_named_and_another_ends_no_program(
    name, value, ends, monkeypatch, tmp_path
):
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path))
    monkeypatch.setenv(name, value)
    with pytest.raises(ParameterError, match=name) if ends else nullcontext():
        check_environment("program")


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"}, ("-c", PROGRAM, "fcnet_teleop.demo_course")),
        ({"ROS_DOMAIN_ID": "1.5"}, ("-c", PROGRAM, "fcnet_teleop.demo_course")),
        ({"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"}, ("-c", STANDIN, "topic", "list")),
        ({"ROS_DOMAIN_ID": "-1"}, ("-c", STANDIN, "topic", "list")),
        ({"ROS_DOMAIN_ID": "abc"}, ("-c", STANDIN, "launch", "fcnet_controller", "a1.launch.py")),
    ],
)
def test_a_program_of_another_stacks_environment_ends_with_one_sentence(variables, command, tmp_path):
    if STANDIN in command:
        pytest.importorskip("ros2_standin", reason="a distribution has a ros2 of its own")
    result = run([], *command, ROS_LOG_DIR=str(tmp_path), **variables)
    (name,) = variables
    assert result.returncode in (1, 2)
    assert result.stderr.count("\n") == 1 and name in result.stderr


def test_what_only_the_middleware_refuses_ends_without_a_traceback(tmp_path):
    result = run([], "-c", NODE, ROS_LOG_DIR=str(tmp_path), ROS_STATIC_PEERS="no-such.invalid")
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert "no-such.invalid" in result.stderr.splitlines()[-1]


def test_a_library_of_another_python_in_pythonpath_is_named(tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('for another Python')")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    for command in (("-c", PROGRAM, "fcnet_teleop.demo_course"), ("-m", "fcnet_core.cli", "info", "aliengo")):
        result = run([], *command, PYTHONPATH=path, ROS_LOG_DIR=str(tmp_path))
        assert result.returncode == 2
        assert result.stderr.count("\n") == 1 and str(tmp_path) in result.stderr


@needs_mounts
def test_a_node_without_home_logs_to_the_temporary_folder(tmp_path, domain):
    logs = tmp_path / "logs"
    logs.mkdir()
    open_to_all(tmp_path)
    logs.chmod(0o777)
    variables = {"HOME": None, "TMPDIR": str(logs), "ROS_LOG_DIR": None, "ROS_HOME": None}
    result = run([READ_ONLY], "-c", NODE, user=NOBODY, **variables)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count(str(logs)) == 1
    assert "works" in "".join(path.read_text() for path in logs.glob("*.log"))
