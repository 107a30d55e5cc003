"""Fixtures of tests with ROS nodes; a conftest.py imports those that its tests use."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import rclpy
from ros_harness import Client, Process, launch_command, own_domain, processes, ros_arguments

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
    """Start a Python module as a node's program with parameters."""
    return lambda module, **parameters: run([sys.executable, "-m", module, *ros_arguments(**parameters)])


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
