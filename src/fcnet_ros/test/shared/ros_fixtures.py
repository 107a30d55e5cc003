"""Fixtures of tests with ROS nodes; a conftest.py imports those that its tests use."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import rclpy
from ros_harness import Client, Process, launch_command, main_command, own_domain, processes, ros_arguments

from fcnet_core.robot import Robot, load_robot
from fcnet_ros.program import participant_profile


@pytest.fixture(scope="session")
def robot() -> Robot:
    return load_robot("aliengo")


@pytest.fixture(scope="module")
def domain() -> Iterator[int]:
    """A ROS domain of this module's own."""
    with own_domain() as domain:
        yield domain


@pytest.fixture(scope="module")
def client(domain: int) -> Iterator[Client]:
    with Client(domain) as client:
        yield client


@pytest.fixture(scope="module")
def run(domain: int) -> Iterator[Callable[[Sequence[str]], Process]]:
    """Start commands; what a module's tests leave running is killed."""
    with processes(domain) as run:
        yield run


@pytest.fixture(scope="module")
def start(run: Callable[[Sequence[str]], Process]) -> Callable[..., Process]:
    """Start the main function of a Python module as a node's program with parameters."""
    return lambda module, **parameters: run([*main_command(module), *ros_arguments(**parameters)])


@pytest.fixture(scope="module")
def launch(run: Callable[[Sequence[str]], Process]) -> Callable[..., Process]:
    """Start a launch file of the suite with arguments, as a user does."""
    return lambda file, **arguments: run(launch_command(file, **arguments))


@pytest.fixture
def make_node(domain: int) -> Iterator[Callable[..., Any]]:
    """Create nodes, each with a participant of its own, as in processes of their own; nothing executes them."""
    made = []

    def make(name: str, **options: Any) -> Any:
        context = rclpy.Context()
        with participant_profile():
            rclpy.init(context=context, domain_id=domain)
            made.append(rclpy.create_node(name, context=context, **options))
        return made[-1]

    yield make
    for node in made:
        node.destroy_node()
        rclpy.shutdown(context=node.context)


def check_program(robot: str, program: str, other: str) -> None:
    """Check an executable of a robot's package: its help, or what the bridge refuses, names this robot."""
    is_bridge, environment = program == "bridge", {"ROS_DOMAIN_ID": "99", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    refused = f"--ros-args -p auto_start:=true -p robot_file:=/nowhere/{other}.yaml"
    command = ["ros2", "run", f"{robot}_bridge", program, *(refused if is_bridge else "--help").split()]
    ended = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60.0)
    assert (ended.returncode != 0) == is_bridge
    assert (f"[{robot}_bridge]" if is_bridge else robot) in ended.stdout + ended.stderr
