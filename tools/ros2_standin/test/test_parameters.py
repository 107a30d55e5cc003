"""`ros2 param` asks running nodes, prints what upstream prints, and says what cannot be done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

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
def tuned(environment: dict[str, str]) -> Iterator[None]:
    """A node /dog/tuned with parameters."""
    process = subprocess.Popen([sys.executable, "-c", TUNED], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield
    process.kill()
    process.communicate()


@pytest.fixture
def param(start: Start, tuned: None) -> Callable[..., list[tuple[int, str]]]:
    """Run several `ros2 param ...` beside each other; return exit code and output of each."""

    def run(*commands: str) -> list[tuple[int, str]]:
        processes = [start("param", *command.split(" ")) for command in commands]
        outputs = [process.communicate(timeout=60)[0] for process in processes]
        return [(process.returncode, output) for process, output in zip(processes, outputs, strict=True)]

    return run


def test_parameters_are_listed_described_and_read_as_upstream_prints_them(param):
    listed, described, one, many = param(
        "list /dog/tuned", "describe /dog/tuned width robot",
        "get dog/tuned width", "get /dog/tuned gains",
    )  # fmt: skip
    assert listed == (0, "  gains\n  robot\n  start_type_description_service\n  use_sim_time\n  width\n")
    # Of all nodes it lists those that it has found: on a busy computer not every one in the first second.
    every = next(found for _ in range(10) if "/dog/tuned" in (found := param("list")[0])[1])
    assert "/dog/tuned:\n  gains\n  robot\n" in every[1]
    assert described[1].splitlines() == [
        "Parameter name: width", "  Type: double", "  Description: width [m]", "  Constraints:",
        "    Min value: 0.0", "    Max value: 1.0",
        "Parameter name: robot", "  Type: string", "  Description: robot", "  Constraints:", "    Read only: true",
    ]  # fmt: skip
    assert one == (0, "Double value is: 0.25\n")
    assert many == (0, "Double values are: [1.0, 2.0]\n")


def test_a_value_is_set_or_refused_with_the_nodes_reason(param):
    done, beyond, kind, fixed, unknown, nowhere = param(
        "set /dog/tuned width 0.5", "set /dog/tuned width 2.0", "set /dog/tuned width wide",
        "set /dog/tuned robot a1", "set /dog/tuned widht 0.5", "get /nobody width",
    )  # fmt: skip
    assert done == (0, "Set parameter successful\n")
    assert param("get /dog/tuned width") == [(0, "Double value is: 0.5\n")]
    for (code, output), words in [
        (beyond, "width out of range"),
        (kind, "Wrong parameter type"),
        (fixed, "read-only parameter: robot"),
        (unknown, "node '/dog/tuned' has no parameter 'widht'"),
        (nowhere, "no node '/nobody' runs"),
    ]:
        assert (code, words in output, "Traceback" in output) == (1, True, False), output
