"""`ros2 param` asks running nodes, prints what upstream prints, and says what cannot be done."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

pytest.importorskip("rclpy", reason="the stand-in alone, without ROS from wheels, has no nodes")

Start = Callable[..., "subprocess.Popen[str]"]

TUNED = """
import rclpy
from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor

rclpy.init()
node = rclpy.create_node("tuned", namespace="/dog", start_parameter_services=True)
width = ParameterDescriptor(description="width [m]", floating_point_range=[FloatingPointRange(to_value=1.0)])
node.declare_parameter("width", 0.25, width)
node.declare_parameter("robot", "mule", ParameterDescriptor(description="robot", read_only=True))
node.declare_parameter("gains", [1.0, 2.0])
print("ready", flush=True)
rclpy.spin(node)
"""


@pytest.fixture
def param(here, python: Start, until_printed) -> Callable[..., tuple[int, str]]:
    """Run `ros2 param ...`; a node /dog/tuned runs."""
    until_printed(python("-c", TUNED), "ready")
    return lambda command: here("param", *command.split(" "))


def test_parameters_are_listed_described_and_read_as_upstream_prints_them(param):
    names = "  gains\n  robot\n  start_type_description_service\n  use_sim_time\n  width\n"
    assert param("list /dog/tuned") == (0, names)
    # Of all nodes it lists those that it has found: on a busy computer not every one in the first second.
    assert any(f"/dog/tuned:\n{names}" in param("list")[1] for _ in range(10))
    assert param("describe /dog/tuned width robot")[1].splitlines() == [
        "Parameter name: width", "  Type: double", "  Description: width [m]", "  Constraints:",
        "    Min value: 0.0", "    Max value: 1.0",
        "Parameter name: robot", "  Type: string", "  Description: robot", "  Constraints:", "    Read only: true",
    ]  # fmt: skip
    assert param("get dog/tuned width") == (0, "Double value is: 0.25\n")
    assert param("get /dog/tuned gains") == (0, "Double values are: [1.0, 2.0]\n")


def test_a_value_is_set_or_refused_with_the_nodes_reason(param):
    assert param("set /dog/tuned width 0.5") == (0, "Set parameter successful\n")
    assert param("get /dog/tuned width") == (0, "Double value is: 0.5\n")
    for command, words in [
        ("set /dog/tuned width 2.0", "width out of range"),
        ("set /dog/tuned width wide", "Wrong parameter type"),
        ("set /dog/tuned robot a1", "read-only parameter: robot"),
        ("set /dog/tuned widht 0.5", "node '/dog/tuned' has no parameter 'widht'"),
        ("get /nobody width", "no node '/nobody' runs"),
    ]:
        code, output = param(command)
        assert (code, words in output) == (1, True), output
