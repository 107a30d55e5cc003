"""A robot, a small policy that holds the legs near the stand pose, and real controller processes."""

import numpy as np
import pytest
import rclpy
from made_robots import small_model
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros_fixtures import domain as domain
from ros_fixtures import launch as launch
from ros_fixtures import make_node as make_node
from ros_fixtures import robot as robot
from ros_fixtures import run as run
from ros_harness import IdealRobot, main_command, ros_arguments

from fcnet_core.model_file import save_model
from fcnet_core.names import CONTROLLER
from fcnet_ros.topics import MODE

LONGEST_STATE_TIMEOUT = 1.0  # [s]
EVERY_MODE = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@pytest.fixture(scope="session")
def model(robot):
    return small_model(robot)


@pytest.fixture(scope="session")
def model_path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "aliengo.safetensors"
    save_model(model, path)
    return path


@pytest.fixture(scope="module")
def context(domain):
    """A ROS context of this module, for nodes that nothing executes."""
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    yield context
    rclpy.shutdown(context=context)


@pytest.fixture(scope="module")
def start(run):
    """Start the controller, which accepts states as old as its parameters allow: a busy machine delays the bench."""
    command = main_command("fcnet_controller.controller_node")
    return lambda **given: run([*command, *ros_arguments(**{"state_timeout": LONGEST_STATE_TIMEOUT} | given)])


class Bench(IdealRobot):
    """An ideal robot that publishes its joints in an order of its own. modes: all modes of the controller."""

    def __init__(self, domain, robot):
        self.modes = []
        super().__init__(domain, robot, "bench")
        self.subscribe(MODE.kind, MODE.of(CONTROLLER).name, lambda mode: self.modes.append(mode.data), EVERY_MODE)
        self.restore()

    def begin_again(self):
        """Lie on the belly, and drop the modes of a controller that has ended."""
        self.restore()
        self.modes.clear()
        self.mode = ""

    def restore(self):
        """Lie on the belly and publish the states of all joints."""
        self.names = sorted(self.robot.joint_names)
        self.lie()

    @property
    def damped(self):
        """Whether the newest command asks for damping."""
        point = self.trajectories[-1].points[0]
        return not point.positions and list(point.velocities) == [0.0] * 12

    def positions(self):
        """Targets (N, 12) received since the trajectories were cleared."""
        points = [message.points[0] for message in list(self.trajectories)]
        return np.array([point.positions for point in points if point.positions])


@pytest.fixture(scope="module")
def bench(domain, robot):
    with Bench(domain, robot) as bench:
        yield bench
